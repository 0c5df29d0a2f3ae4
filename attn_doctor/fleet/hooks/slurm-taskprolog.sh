# @@VERSION@@
