"""dtype provenance: which call, at which line, gave q (or k, or v) the dtype with which it reaches attention.

Imports nothing itself. `run.trace(request)` answers one request; `watch.Watch` records the program that runs it.
Structure: record/modes.py sees calls and operations, record/recorder.py builds a graph of them (record/graph.py); meet/
recognizes the attention calls; ../libraries has each kernel's contract; read/provenance.py reads the graph backwards;
read/counterfactual.py runs again with promoting calls cast back; read/result.py makes the JSON. rules.py and
redirect.py simulate a GPU, stand_in/ and ../libraries replace kernels, hollow/ replaces memory.

Request
    kind            "factory" | "hf" | "script"
    target          "pkg.module:factory" or "file.py:factory" | folder or config.json | path of a script
    args, kwargs    for the factory (strings that read as Python literals become them), or the script's arguments
    dtype           the module (and floating inputs) cast to it; for hf the model's dtype. None: as built
    autocast        run inside torch.autocast("cuda", dtype); None: as the program does
    attn            attn_implementation, hf only
    backward        also a backward pass, from the sum of the outputs (factory, hf)
    calls           stop after so many attention calls; a script stops at its first broken one anyway
    rules           "auto" | "gpu" | "cpu" | "fake". auto: fake for hf, cpu for the rest. fake: large tensors
                    take no memory and have no values (hollow/); cpu: all are real
    gpu             {"compute_capability": "9.0", "name", "shared_memory_bytes", "memory_mib",
                    "multi_processor_count"}: the GPU that is not there. None: an H100
    flash_attn_version   version of the stand-in, when flash_attn is not installed ("2.8.3")
    stand_ins       libraries that get a stand-in although not installed: ["flash_attn"] by default, also "xformers"
    counterfactual  False: no second runs
    trust_remote_code, batch, length   hf only (False, 1, 32)
    cwd, sys_path, env, scratch, compile_kernels, kernel_timeout, kernel_budget, kernel_configurations: trace_run.py

Answer (`trace.json`), every key always there
    schema          "trace/1"
    outcome         "finished" | "stopped" (enough was seen) | "raised" (the program did) | "could not run" |
                    "watched" | "under way" (progress.json only)
    verdict         worst of all attention calls: "raises" | "silently mixed" | "promoted then repaired" | "clean";
                    None: no attention call was seen, which does not mean clean
    entry           the request repeated, and `words`: a description of what was run
    rules           {name, words, gpu: {…, assumed: it is not there, named: the user chose it}, autocast_source,
                    torch, fake, not_simulated: [words],
                    stood_in: [words, for each library that was imported and replaced by a stand-in]}
    attention       [call], folded: equal calls of many layers are one entry
    promotions      [promotion], each promoting call once; a call's operands refer to them by `id`
    counterfactual  None (clean) or {runs: [{mended, verdict, error, attention_calls}], clean_after: run or None,
                    words, remedies: [{file, line, function, call, to}]}
    failure         None, or the torch function that raised outside any attention call (a Linear with mixed
                    dtypes): {call, at, module, mixed, operands: [operand + shape, promotion, born]}
    launches        [{kernel, dtypes: {argument: dtype}, at, module}], every kind of Triton launch once
    slow_paths      ["function: library that is not installed"]: what a library said of a loop of torch operations
                    that it runs in the place of a kernel
    progress        {ops, attention_calls, module_calls, triton_launches, last: place, module}
    error           None or {kind, type, message, at: place, words, traceback}; kind: "attention call raised" |
                    "dtype mismatch" | "wrong device" | "cannot simulate" | "model raised" | "exit" |
                    "factory raised" | "factory not found" | "factory without inputs" |
                    "factory returned something else" | "nothing to go back from" | "config not found" |
                    "config not understood" | "attention refused" (by the config's class) | "script not found" |
                    "library missing" | "no GPU" | "usage" |
                    "tracer failed" (a fault of ours).
                    `words` is one sentence that also says how far the run came
    judged          what a clean verdict covers, in words; None when no call is clean
    seconds         wall time of the whole answer

place = {file, line, function, source} or None

call = {name, library, stand_in: words or None, needs_gpu: that is for want of a GPU alone, verdict,
    error: None or {type, message, predicted, at: place},
    contract: [{words, kept, effect: None|"raises"|"silent"|"repaired", message, operands: [role]}],
    autocast: dtype or None, operands: {role: operand}, head_dim, at: place, stack: [place] outwards,
    modules: [names], calls: how many were folded, first_call: its number, backward,
    inside: [{name, dtypes: {role: dtype}}] kernels and functions that ran within,
    backend: None, or for torch's SDPA which of its backends that GPU gets by torch's rules: {taken: "flash" |
        "efficient" | "cudnn" | "math" | None, refused: {backend: torch's reason}, certain, doubts: [words],
        warnings: [what the one taken does wrong], error: what is raised before one is taken, gpu, torch,
        math: None, or where math is taken {q_length, k_length, score_bytes: of the matrix of scores, operand_bytes: of
        q, k, v and the output, ways: [{backend, words: what to change}]}},
    written_out: no kernel was called, softmax(q k^T) v stands in the model's own ops}
  roles: q, k, v, mask, new_k, new_v (what a call appends to a cache).
  operand = {dtype, shape, stride, head_dim, last_dim_contiguous, blamed, all_along (blamed, and no call on its
    path changed its dtype), promotion: id or None, born: [birth], path: [step] from projection to kernel}

step = place + {call, ops: [aten ops inside], module, dtype_in, dtype_out, changed, operands: [label]}
label = {dtype, name or None, kind: "parameter" | "buffer" | "attribute" | "input" | "made before the trace" |
    "constant" | "computed" | "computed from parameters"}

promotion = place + {id, call, ops, module, dtype_in, dtype_out, operands: [label], autocast: bool,
    kind: "mixed operands" | "autocast policy" | "explicit cast" | "dtype argument" | "op's own output dtype" |
          "kernel's own output dtype" | "buffer's own dtype" (made wider than what was written into it),
    born: [birth], roles: [role], modules: [names], calls, latent: bool, found_in_run: 0 or the counterfactual run,
    can_be_tried: bool,
    cast_back: None, or place + {call, to: dtype}: where the code that promoted should have cast back, when that is
        another call than the promoting one (the last of a cast's own function; where complex numbers end)}
forms: [{name, library, by_heads, dtypes, shapes, strides, flags, autocast, trains,
    backend, calls, place}], each form of call once (meet/forms.py)
birth = {kind: label kinds or "autocast policy" | "explicit cast" | "dtype argument" | "op" | "kernel", name, op,
    dtype, call, at: place, module}
"""

from __future__ import annotations

from .answer import Answer

SCHEMA = "trace/1"

JUDGED = "dtypes and backends; values, masks and packing were not examined"


def unanswered() -> Answer:
    """An answer in which everything is unknown."""
    return {
        "schema": SCHEMA,
        "outcome": "could not run",
        "verdict": None,
        "entry": None,
        "rules": None,
        "attention": [],
        "forms": [],
        "promotions": [],
        "counterfactual": None,
        "failure": None,
        "launches": [],
        "slow_paths": [],
        "progress": None,
        "error": None,
        "judged": None,
        "seconds": None,
    }
