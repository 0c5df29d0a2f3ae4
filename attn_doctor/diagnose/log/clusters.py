"""Tells where a log was written, as far as the first step is another one there: a scheduler that gives GPUs to jobs, a
cluster whose software is loaded by modules, a machine that somebody lends by the hour.
"""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.diagnose.log.hearsay import is_not_there, works_there
from attn_doctor.quick_patterns import when_used

SCHEDULER, MODULES, HOSTED = "log.scheduler", "log.modules", "log.hosted"
#: The job asks for GPUs already.
ASKED = "log.gpus_asked"
_SCHEDULER = when_used(
    r"(?P<Slurm>#SBATCH\b|\bslurmstepd: "
    r"|(?:^|[\s$#>`])(?:srun|sbatch|salloc)(?:: (?:error|job|Job|Terminating)| -| python)"
    r"|/slurmd?/|\bSLURM_(?:JOB|PROCID|NODE|LOCALID|NTASKS|STEP)\w*"
    r"|\b(?:SLURM|[Ss]lurm) (?:cluster|job|script|node|partition|queue)s?\b"
    r"|\b(?:[Uu]nder|[Oo]n|[Uu]sing|[Vv]ia) (?:SLURM|Slurm)\b)"
    r"|(?P<Kubernetes>\bkubectl [a-z]|\bnvidia\.com/gpu\b|\bkubelet\b|^\[?pods?/[\w-]+"
    r"|\bFailedScheduling\b|\bk8s (?:pod|cluster|node|job)s?\b|\b[Kk]ubernetes (?:pod|cluster|node|job|deployment)s?\b"
    r"|\b(?:[Ii]n|[Oo]n|[Uu]nder|[Uu]sing) (?:a |an |the |our |my )?(?:[Kk]ubernetes|k8s)\b)"
)
_MODULES = when_used(
    r"(?<!dynamic )\bmodule (?:load(?! (?:fail|order|error|time))|avail|spider|purge|add|list)\b"
    r"|\bLmod\b|\bml (?:load|cuda)\b"
)
_HOSTED = when_used(
    r"(?P<Kaggle>/kaggle/(?:input|working|temp)\b"
    r"|\b[Kk]aggle(?:'s)? (?:notebook|kernel|session|GPU|T4|P100|TPU|competition)s?\b"
    r"|\b(?:[Oo]n|[Ii]n|[Uu]sing|[Vv]ia) (?:a |the |my )?[Kk]aggle\b)"
    r"|(?P<Databricks>/databricks/(?:python|driver|spark)|/local_disk0/\.ephemeral_nfs/|\bdbutils\."
    r"|\b[Dd]atabricks (?:notebook|cluster|runtime|job)s?\b)"
)
_ASKED = when_used(
    r"--gres[= ]gpu\b|(?:#SBATCH|\bsrun|\bsbatch|\bsalloc)\b[^\n]{0,200}--gpus(?:-per-\w{4,6})?[= ]\S?\w*\d"
)
#: Of these one stands in every line that they find.
SIGNS = (
    *("SBATCH", "slurm", "Slurm", "SLURM", "srun", "sbatch", "salloc", "--gres"),
    *("kubectl", "nvidia.com/gpu", "kubelet", "pod/", "pods/", "FailedScheduling", "k8s", "ubernetes"),
    *("module ", "Lmod", "ml "),
    *("aggle", "atabricks", "local_disk0", "dbutils"),
)


def told_in(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of each such fact that a line tells."""
    found = _SCHEDULER.search(text, 0, 600)
    if found and not works_there(text, found.start()) and not is_not_there(text, found.start()):
        yield SCHEDULER, str(found.lastgroup)
    if _MODULES.search(text, 0, 600):
        yield MODULES, "modules"
    if (found := _HOSTED.search(text, 0, 600)) and not works_there(text, found.start()):
        yield HOSTED, str(found.lastgroup)
    if "--g" in text and _ASKED.search(text, 0, 600):
        yield ASKED, "Slurm"
