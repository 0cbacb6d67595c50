import numpy as np

from evo.family.python import argument, case, family, field, kernel, tunable


@family
class saxpy_python:
    """out = a x + y"""

    N: int = field(65536, min=1, max=16777216, help="elements")
    A: int = field(3, min=-1000, max=1000, help="the factor of x")

    a = argument("scalar", "float32", value="A")
    x = argument("input", "float32", ["N"])
    y = argument("input", "float32", ["N"])
    out = argument("output", "float32", ["N"], rel_l2=1e-6, max_abs_ratio=4.0)

    work = {"flops": "2*N", "bytes": "12*N", "dtype": "float32"}

    nominal = case("normal")
    offset = case("offset")
    tail = case("normal", problem={"N": "N // 2 + 7"}, hidden=True)

    @kernel(
        entry="saxpy",
        constraints=[
            {"expression": "WIDTH * UNROLL <= 64", "because": "longer steps need more registers than the CPU has"}
        ],
    )
    def cpu(WIDTH=tunable([1, 4, 8, 16], default=1, help="floats per vector"), UNROLL=[1, 2, 4, 8]):
        """
        typedef float vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

        void saxpy(float a, const float *restrict x, const float *restrict y, float *restrict out) {
            int i = 0;
            for (; i + UNROLL * WIDTH <= N; i += UNROLL * WIDTH)
                for (int part = i; part < i + UNROLL * WIDTH; part += WIDTH)
                    *(vector *)(out + part) = a * *(const vector *)(x + part) + *(const vector *)(y + part);
            for (; i < N; i++) out[i] = a * x[i] + y[i];
        }
        """

    def inputs(problem, distribution, rng):
        mean = {"normal": 0.0, "offset": 10.0}[distribution]
        return {name: rng.normal(mean, 1.0, problem["N"]).astype(np.float32) for name in ("x", "y")}

    def reference(problem, inputs):
        x, y = (inputs[name].astype(np.float64) for name in ("x", "y"))
        return {"out": problem["A"] * x + y}

    def yardstick(problem, inputs):
        return {"out": np.float32(problem["A"]) * inputs["x"] + inputs["y"]}
