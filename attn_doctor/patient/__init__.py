"""What runs in the patient's interpreter: the standard library, and whatever is being examined.

Loaded by bootstrap.py under the private name `_attn_doctor_patient`, never as `attn_doctor.patient`: the
doctor's own package is not importable from the patient, and must not need to be. Python >= 3.9 syntax.
Every task is a module with
`main(request: dict, answers: str)`, which leaves its answers as JSON files in the folder `answers`.
"""
