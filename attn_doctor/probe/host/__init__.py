"""The node itself: operating system, driver, GPUs, Xids, the toolkit that builds extensions."""
