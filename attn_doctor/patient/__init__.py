"""Code that runs in the patient's interpreter: it uses the standard library and the packages under examination.

Loaded by bootstrap.py under the private name `_attn_doctor_patient`, never as `attn_doctor.patient`: the doctor's own
package is not importable from the patient, and need not be. Python >= 3.9 syntax. Every task is a module with
`main(request: dict, answers: str)`, which writes its answers as JSON files to the folder `answers`.
"""
