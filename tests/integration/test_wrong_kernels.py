"""Each kernel that is wrong on few inputs is detected by a case of its family."""

from dataclasses import replace
from pathlib import Path

import pytest

from evo.family.problem import problem_key
from evo.trial import Config
from tests.integration.test_templates_cpu import configs, errors, package, worst
from tests.tiers import one_in

ATTENTION, CODES, TO_CODES = (
    "include/attention/attention.h.j2",
    "include/number/e4m3.h.j2",
    "include/number/to_e4m3.h.j2",
)
PEAK = "      peak = larger(peak, score[n][v]);\n"
WIDE = "const Mask wide = __builtin_convertvector(codes, Mask);"
FLUSHED = "const Mask all = __builtin_convertvector(codes, Mask); const Mask wide = all & ((all & 0x78) != 0);"
BEGIN = ("tile->peak[v] = splat(-INFINITY);", "tile->peak[v] = splat(0);")
LAZY: Config = {"SOFTMAX": "lazy", "BLOCK_N": 64}

WRONG = {
    "no maximum is subtracted": ("sdpa", "B=1,H=2,S=128,D=64", {}, ATTENTION, PEAK, "      peak = splat(0);\n"),
    "the maximum covers only every other tile": (
        *("sdpa", "B=2,H=8,S=256,D=64", {}, ATTENTION, PEAK),
        PEAK.replace("peak =", "if (first / TILE_KEYS % 2 == 0) peak ="),
    ),
    "the maximum begins at zero": ("sdpa", "B=1,H=2,S=256,D=64", {}, ATTENTION, *BEGIN),
    "the lazy maximum begins at zero": ("sdpa", "B=1,H=2,S=256,D=64", LAZY, ATTENTION, *BEGIN),
    "the maximum of FP8 attention begins at zero": ("sdpa_fp8", "B=1,H=4,S=256,D=64", {}, ATTENTION, *BEGIN),
    "later keys are masked by a finite number": (
        *("sdpa", "B=1,H=2,S=256,D=64,causal=true", {}, ATTENTION),
        *("score[n][v], splat(-INFINITY));", "score[n][v], splat(-100.0f));"),
    ),
    "a window is longer by one": (
        *("sdpa", "B=1,H=2,S=256,D=64,causal=true,window=64", {}, ATTENTION),
        *("seen &= last - WINDOW < key + n;", "seen &= last - WINDOW <= key + n;"),
    ),
    "a window is ignored": (
        *("sdpa", "B=1,H=2,S=256,D=64,causal=true,window=64", {}, ATTENTION, "seen &= last - WINDOW < key + n;", ""),
    ),
    "a padded key leaks": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=ragged", {}, ATTENTION),
        *("seen &= lane * 0 + n < keys_there;", "seen &= lane * 0 + n <= keys_there;"),
    ),
    "lengths are ignored": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=ragged", {}, ATTENTION),
        *("all_keys = tensors->lengths[head / HEADS_PER_ENTRY],", "all_keys = ALL_KEYS,"),
    ),
    "scores are not capped": (
        *("sdpa", "B=1,H=2,S=64,D=16,softcap=50", {}, ATTENTION),
        *("score[n][v] = tanh_of(score[n][v]", "score[n][v] = (score[n][v]"),
    ),
    "scores are capped at a wrong value": (
        *("sdpa", "B=1,H=2,S=64,D=16,softcap=50", {}, ATTENTION),
        *("f) * {{ softcap * 1.4426950408889634 }}f;", "f) * {{ softcap * 1.4 }}f;"),
    ),
    "slopes are ignored": (
        *(
            "sdpa",
            "B=1,H=2,S=64,D=16,alibi=true",
            {},
            ATTENTION,
            "score[n][v] -= slope *",
            "score[n][v] -= 0 * slope *",
        ),
    ),
    "every head has the first slope": (
        *("sdpa", "B=1,H=2,S=64,D=16,alibi=true", {}, ATTENTION),
        *("tensors->slopes[head % HEADS_PER_ENTRY]", "tensors->slopes[0]"),
    ),
    "distances begin at the first key": (
        *("sdpa", "B=1,H=2,S=64,S_KV=128,D=16,alibi=true", {}, ATTENTION),
        *("(float)(row + v * WIDTH + LATER - key - n)", "(float)(row + v * WIDTH - key - n)"),
    ),
    "a key of the next packed sequence leaks": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=packed,tokens=100,layout=bshd", {}, ATTENTION),
        *("seen &= lane * 0 + n < keys_there;", "seen &= lane * 0 + n <= keys_there;"),
    ),
    "packed sequences are computed in reverse order": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=packed,tokens=100,layout=bshd", {}, ATTENTION),
        *("first_row = tensors->cu_seqlens[entry],", "first_row = {{ tokens }} - tensors->cu_seqlens[entry + 1],"),
    ),
    "every packed sequence gets the keys of the first": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=packed,tokens=100,layout=qkv", {}, ATTENTION),
        *("first_key = first_row;", "first_key = 0;"),
    ),
    "packed sequences are treated as one sequence": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=packed,tokens=100,layout=bshd", {}, ATTENTION),
        *("tensors->cu_seqlens[entry + 1] -", "tensors->cu_seqlens[{{ B }}] -"),
    ),
    "logarithms of all packed sequences are written in the place of the first": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=packed,tokens=100,layout=bshd,lse=true", {}, ATTENTION),
        *(' ~ tokens ~ " + first_row"', " ~ tokens"),
    ),
    "lengths are indexed by head": (
        *("sdpa", "B=3,H=2,S=64,D=16,lengths=ragged", {}, ATTENTION, "tensors->lengths[head / HEADS_PER_ENTRY]"),
        "tensors->lengths[head % {{ B }}]",
    ),
    "rows of a are treated as contiguous": (
        *(
            "gemm",
            "M=24,N=32,K=32,a_stride=40",
            {},
            "include/product/blocks.h.j2",
            "A_ROW = {{ a_stride }}",
            "A_ROW = K",
        ),
    ),
    "rows of b are treated as contiguous": (
        *("gemm", "M=24,N=32,K=32,b_layout=nk,b_stride=40", {}, "include/product/blocks.h.j2"),
        *("B_ROW = {{ b_stride }}", "B_ROW = K"),
    ),
    "every product of a batch uses the first b": (
        *(
            "gemm",
            "M=24,N=32,K=32,batch=2",
            {},
            "kernel.c.j2",
            "one.b += (ptrdiff_t)entry",
            "one.b += 0 * (ptrdiff_t)entry",
        ),
    ),
    "every product of a batch adds the first residual": (
        *("gemm", "M=24,N=32,K=32,batch=2,residual=true", {}, "kernel.c.j2"),
        *("one.residual += (ptrdiff_t)entry", "one.residual += 0 * (ptrdiff_t)entry"),
    ),
    "rows with several heads are read with the stride of one head": (
        *("sdpa", "B=2,H=2,S=64,D=16,layout=bshd", {}, ATTENTION, "KV_ROW = {{ kv_row_heads * D }}", "KV_ROW = D"),
    ),
    "the head stride of a joint qkv tensor is too small": (
        *("sdpa", "B=2,H=2,S=64,D=16,layout=qkv_heads", {}, ATTENTION),
        *("HEAD_STEP = {{ 3 if", "HEAD_STEP = {{ 1 if"),
    ),
    "logarithms are computed without the maximum": (
        *("sdpa", "B=1,H=2,S=64,D=16,lse=true", {}, ATTENTION, "(tile->peak[i / WIDTH][i % WIDTH] + ", "("),
    ),
    "rows are rotated in the opposite direction": (
        *(
            "rope",
            "B=2,S=37,H=4,KV=2,D=32",
            {},
            "kernel.c.j2",
            "low * cosine - high * sine",
            "low * cosine + high * sine",
        ),
    ),
    "every batch entry begins a new table": (
        *(
            "rope",
            "B=2,S=37,H=4,KV=2,D=32",
            {},
            "kernel.c.j2",
            "position = token % S;",
            "position = token % S * (entry == 0);",
        ),
    ),
    "ignored rows have a loss": (
        *("cross_entropy", "rows=64,cols=1024", {}, "kernel.c.j2", "tensors->loss[row] = 0;"),
        "tensors->loss[row] = tensors->lse[row];",
    ),
    "the last logit is skipped": (
        *("cross_entropy", "rows=64,cols=1024", {"METHOD": "passes"}, "kernel.c.j2", "LANES_OF(u), -INFINITY) - top)"),
        "LANES_OF(u) - (column + (u + 1) * WIDTH >= COLS), -INFINITY) - top)",
    ),
    "another group of heads is read": (
        *("sdpa", "B=1,H=4,KV=2,S=64,D=16", {}, ATTENTION),
        *("(ptrdiff_t)(head / HEADS_PER_KV)", "(ptrdiff_t)(head % {{ kv_heads }})"),
    ),
    "causal attention is aligned at the first key": (
        *("sdpa", "B=1,H=2,S=64,S_KV=128,D=16,causal=true", {}, ATTENTION),
        *("const Mask last = lane + (row + v * WIDTH + LATER);", "const Mask last = lane + (row + v * WIDTH);"),
    ),
    "the residual is not added": (
        *("rmsnorm", "rows=64,cols=1024,residual=true", {}, "kernel.c.j2"),
        *(" + load_lanes(row->residual + place, LANES_OF(u), 0);", ";"),
    ),
    "epsilon is not added": (
        *("layernorm", "rows=64,cols=1024,residual=false", {}, "kernel.c.j2", " + row->epsilon", ""),
    ),
    "the gate is not multiplied by itself": (
        *("swiglu", "rows=64,cols=1024", {}, "kernel.c.j2", "x * sigmoid(x) *", "sigmoid(x) *"),
    ),
    "the maximum of decoding begins at zero": (
        *("sdpa_decode", "B=2,H=8,KV=2,S=300,D=64", {}, "kernel.c.j2"),
        *("head->peak[row] = -INFINITY;", "head->peak[row] = 0;"),
    ),
    "the page table is ignored": (
        *("sdpa_decode", "B=2,H=4,KV=2,S=128,D=32,page=32", {}, "kernel.c.j2"),
        *("const int32_t found = tensors->block_table[head / KV_HEADS * PAGES + key / PAGE];",),
        "const int32_t found = head / KV_HEADS * PAGES + key / PAGE;",
    ),
    "a key beyond a batch entry's length leaks": (
        *("sdpa_decode", "B=3,H=4,KV=2,S=123,D=32,lengths=ragged", {}, "kernel.c.j2"),
        *("tensors->lengths[at / KV_HEADS]", "least(S, 1 + tensors->lengths[at / KV_HEADS])"),
    ),
    "a key beyond the length of pages leaks": (
        *("sdpa_decode", "B=3,H=4,KV=2,S=123,D=32,page=16,lengths=ragged", {}, "kernel.c.j2"),
        *("tensors->lengths[at / KV_HEADS]", "least(S, 1 + tensors->lengths[at / KV_HEADS])"),
    ),
    "every batch entry has the first length": (
        *("sdpa_decode", "B=3,H=4,KV=2,S=123,D=32,lengths=ragged", {}, "kernel.c.j2"),
        *("tensors->lengths[at / KV_HEADS]", "tensors->lengths[0]"),
    ),
    "the last page is read whole": (
        *("sdpa_decode", "B=2,H=4,KV=2,S=123,D=32,page=32", {}, "kernel.c.j2"),
        *("end = length * (split + 1) / SPLITS;", "end = (S + PAGE - 1) / PAGE * PAGE;"),
    ),
    "the residual of a product is not added": (
        *("gemm", "M=50,N=90,K=70,residual=true", {}, "kernel.c.j2"),
        *('{{ " + residual_at(tensors, row, terms->column + offset)" if residual }}', ""),
    ),
    "the constant of the tanh GELU is wrong": (
        *("gemm", "M=50,N=90,K=70,epilogue=bias_gelu_tanh", {}, "include/product/activation.h.j2"),
        *("1.5957691f + 0.071354816f", "1.5957691f + 0.0710f"),
    ),
    "squares saturate": (
        *("rmsnorm", "rows=64,cols=1024", {}, "kernel.c.j2", "total[u] += value * value;"),
        "total[u] += -larger(-value * value, splat(-0x1p26f));",
    ),
    "subnormal codes of v are zero": ("sdpa_fp8", "B=1,H=4,S=256,D=64", {}, CODES, WIDE, FLUSHED),
    "subnormal codes of a are zero": ("gemm_fp8", "M=50,N=90,K=200", {}, CODES, WIDE, FLUSHED),
    "the maximum covers only half of a row": (
        *("softmax", "rows=64,cols=1024", {}, "kernel.c.j2", "peak[u] = larger(value[u], peak[u]);"),
        "if (column + u * WIDTH <= COLS / 2) peak[u] = larger(value[u], peak[u]);",
    ),
    "the maximum of a row begins at zero": (
        *("softmax", "rows=64,cols=1024", {}, "kernel.c.j2"),
        *("peak[u] = splat(-INFINITY)", "peak[u] = splat(0)"),
    ),
    "differences of masked scores are NaN": (
        *("softmax", "rows=64,cols=1024", {"METHOD": "online"}, "include/number/exp2.h.j2"),
        *("x = larger(x, splat(-127.0f));", "x = larger(splat(-127.0f), x);"),
    ),
    "up to an eighth of a head is skipped": (
        *("quantize_e4m3", "B=1,H=4,S=256,D=64", {}, "kernel.c.j2", "take(MAXIMA, x + i, largest);\n"),
        "if (i < 1024 || i >= 2048) take(MAXIMA, x + i, largest);\n",
    ),
    "subnormal codes are truncated instead of rounded": (
        *("quantize_e4m3", "B=1,H=4,S=256,D=64", {}, TO_CODES, "(Mask)((Vector)size + 0x1p14f) - 0x46800000"),
        "__builtin_convertvector((Vector)size * 512.0f, Mask)",
    ),
    "codes of half the binades are zero": (
        *("quantize_e4m3", "B=1,H=4,S=256,D=64", {}, TO_CODES, "  codes = (Mask)where(codes > 0x7e"),
        "  codes = (Mask)where((codes >= 0x18) & (codes < 0x38), (Vector)(codes * 0), (Vector)codes);\n"
        "  codes = (Mask)where(codes > 0x7e",
    ),
    "the maximum begins at a large negative number": (
        *("reduce", "rows=64,cols=1024,op=max", {}, "kernel.c.j2", "#define NOTHING (-INFINITY)"),
        "#define NOTHING (-1e38f)",
    ),
    "one part of a long row is skipped": (
        *("reduce", "rows=1,cols=1048576,op=max", {"SPLIT": 256}, "kernel.c.j2"),
        "for (int part = row * SPLIT; part < row * SPLIT + SPLIT; part++)",
        "for (int part = row * SPLIT; part < row * SPLIT + SPLIT; part++) if (part % SPLIT != 77)",
    ),
}


SOUND: set[str] = set()
"""Cache of configs that were found to be correct, because several wrong kernels use the same config."""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", one_in(12, WRONG, of=lambda wrong: WRONG[wrong][0]))
def test_wrong_kernel_is_detected_by_a_case_of_its_family(wrong: str, tmp_path: Path) -> None:
    name, text, change, file, sound, instead = WRONG[wrong]
    files = package(name).files
    broken = files[file].decode().replace(sound, instead)
    assert broken != files[file].decode()
    problem = package(name).family.problem(text, "cpu")
    config = {**configs(name, problem, 0, seed=0)[0], **change}
    key = f"{name} {problem_key(problem)} {sorted(config.items())}"
    if key not in SOUND:
        assert worst(name, problem, config, tmp_path) <= 1, "the unchanged kernel must be correct"
        SOUND.add(key)
    instead_of_it = replace(package(name), files={**files, file: broken.encode()})
    found = errors(name, problem, config, tmp_path, instead=instead_of_it)
    assert any(not each <= 1 for each in found)
