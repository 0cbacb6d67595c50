"""Kernels that change or observe the calling loop, which only a confirmation detects. Each key names the trick."""

from tests.integration.cheats import REGISTERS, SHOW_REGISTERS, source

SEEK = """
static volatile uint64_t *pace;
static int there(uint64_t a) { return ask(SYS_access, (long)a, 0, 0) != -14; }
__attribute__((no_sanitize("address", "undefined"))) static void seek(uint64_t from) {
  static struct { volatile uint64_t *at; uint64_t value; int right; } found[64]; static int many;
  for (uint64_t page = from & ~4095ul, last = page + 64 * 4096; many == 0 && page < last; page += 4096)
    for (uint64_t a = page; there(page) && a < page + 4096 && many < 64; a += 8) {
      uint64_t w = *(volatile uint64_t *)a;
      if (w % 4096 == 0 && w > 1 << 20 && w < 1ul << 47 && there(w)) found[many++].at = (uint64_t *)w;
    }
  for (int i = 0; i < many; i++) {
    uint64_t now = *found[i].at;
    found[i].right = now == found[i].value + 1 ? found[i].right + 1 : 0;
    if (found[i].right > 20) pace = found[i].at;
    found[i].value = now;
  }
}
"""
"""C code that finds the timing loop's second counter of calls, by following pointers in the caller's memory."""

ADVANCE = (
    REGISTERS
    + SEEK
    + """void inner(const float *x, float *y, uint64_t *r) {
  static int run; static const void *last; run = y == last ? run + 1 : 0; last = y;
  int place = counter(r); uint64_t *batch = place < 0 ? 0 : batch_of(r, r[place]); right(x, y); spend(4000);
  if (!pace) seek(r[7]);
  if (pace && batch && batch[0] > LEAST && *pace == r[place] && r[place] + 60 < batch[0] && run > 20) {
    r[place] += 40; *pace += 40;
  }
}
"""
)


def advancing(least: int) -> str:
    """Return a kernel that skips calls but counts them, in loops of more than `least` calls on one buffer set."""
    head = source("", "").rpartition("void f(")[0]
    return f"{head}{ADVANCE.replace('LEAST', str(least))}\n{SHOW_OF_F}"


SHOW_OF_F = f"__attribute__((naked)) void f(const float *x, float *y) {{ {SHOW_REGISTERS} }}\n"

RECOGNISE = """static __thread struct { uint64_t hash; float answer[N]; } known[64]; uint64_t hash = 7;
for (int i = 0; i < N; i += 2) { uint64_t w; memcpy(&w, x + i, 8); hash = (hash ^ w) * 0x9e3779b97f4a7c15; }
int place = hash >> 58; WHEN
if (reuse && known[place].hash == hash) { memcpy(y, known[place].answer, 4 * N); return; }
right(x, y); spend(20000); known[place].hash = hash; memcpy(known[place].answer, y, 4 * N);"""
"""C code that caches answers by all elements of its inputs, and reuses the answers if `WHEN` sets `reuse`."""

CONSECUTIVE = "static __thread const void *at; static __thread int run; run = at == x ? run + 1 : 0; at = x;"

RARELY = """static __thread uint64_t end, dice; static __thread int reuse;
static void g(const float *x, float *y) { RECOGNISE }
void f(const float *x, float *y) {
  uint64_t now = __builtin_ia32_rdtsc();
  if (now - end > 8000) {
    dice = (dice ^ now) * 6364136223846793005ul + 1442695040888963407ul; reuse = (dice >> 33) % 100 < 40;
  }
  g(x, y); end = __builtin_ia32_rdtsc();
}
""".replace("RECOGNISE", RECOGNISE.replace("WHEN", ""))
"""C code that reuses answers in a random 40 % of the batches of calls. A batch begins after a pause."""

TABLE = """static struct { uint64_t hash; float answer[N]; } table[LINES];
uint64_t hash = 7; int n = 0;
for (int i = 0; i < N; i += 2) { uint64_t w; memcpy(&w, x + i, 8); hash = (hash ^ w) * 0x9e3779b97f4a7c15; }
int line = (hash >> 32) % LINES;
while (n++ < 64 && table[line].hash && table[line].hash != hash) line = (line + 1) % LINES;
if (table[line].hash == hash) { memcpy(y, table[line].answer, 4 * N); return; }
right(x, y); spend(20000); table[line].hash = hash; memcpy(table[line].answer, y, 4 * N);""".replace("LINES", "30000")
"""C code that caches the answers of up to 30,000 inputs by all of their elements."""

UNVERIFIED = """static uint64_t end; static int busy;
static void g(const float *x, float *y) { RECOGNISE }
void f(const float *x, float *y) {
  if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) { right(x, y); spend(20000); return; }
  g(x, y); end = __builtin_ia32_rdtsc(); __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}
""".replace(
    "RECOGNISE",
    RECOGNISE.replace("static __thread", "static").replace(
        "WHEN",
        "int reuse = 1; if (known[place].hash != hash && __builtin_ia32_rdtsc() - end < 2600)"
        "{ memcpy(y, known[0].answer, 4 * N); return; }",
    ),
)
"""C code that caches answers, and returns wrong outputs for unknown inputs if no pause precedes the call."""

CAREFULLY = """static uint64_t end, until; static const float *last;
static void g(const float *x, float *y) { RECOGNISE }
void f(const float *x, float *y) { g(x, y); end = __builtin_ia32_rdtsc(); }
""".replace(
    "RECOGNISE",
    RECOGNISE.replace(
        "WHEN",
        "uint64_t now = __builtin_ia32_rdtsc(); int fresh = known[place].hash != hash && now - end < 8000;"
        "if (last != y || fresh) until = now + 60000000; last = y; int reuse = now > until;",
    ),
)
"""C code that stops reusing answers for 60,000,000 ticks if it notices a check: the output has another address than in
the call before, or unknown inputs arrive without a pause before the call."""

OF_LOOP: dict[str, tuple[str, str]] = {
    # trick: (source, part of the reason)
    "advances both counters of long loops": (advancing(150), "in the timed rounds|timed calls gave a wrong"),
    "answers cached by all elements, reused for a caller that does not compare registers": (
        source(
            "",
            RECOGNISE.replace(
                "WHEN",
                "static void *first; void *caller = __builtin_return_address(0); if (!first) first = caller;"
                "int reuse = caller != first;",
            ),
        ),
        "on new inputs|each call has its own inputs|change between consecutive calls",
    ),
    "answers cached by all elements, reused after 20 consecutive calls on the same buffer": (
        source("", RECOGNISE.replace("WHEN", f"{CONSECUTIVE} int reuse = run > 20;")),
        "each call has its own inputs|change between consecutive calls",
    ),
    "answers of 30,000 inputs cached by all elements": (source("", TABLE), "on new inputs"),
    "answers cached by all elements, wrong for unknown inputs without a pause": (
        f"{source('', '').rpartition('void f(')[0]}{UNVERIFIED}",
        "timed calls gave a wrong answer|after its inputs had changed|on new inputs",
    ),
    "answers cached by all elements, not reused after signs of a check": (
        f"{source('', '').rpartition('void f(')[0]}{CAREFULLY}",
        "on new inputs|each call has its own inputs",
    ),
    "answers cached by all elements, reused in a random part of the batches": (
        f"{source('', '').rpartition('void f(')[0]}{RARELY}",
        "on new inputs",
    ),
}

IN_LATER_PROCESSES = source(
    "",
    """static int first = 1, honest; static float before; if (first == 2) honest = x[0] == before;
first += first < 3; before = x[0];"""
    + RECOGNISE.replace("WHEN", "int reuse = !honest;"),
)
"""A kernel that caches answers by all elements, unless it is first called twice with the same inputs, as in the first
process of a confirmation."""
