"""Models that converters of precision get wrong, each with inputs. None needs more than onnx and numpy."""

import numpy as np
from graphs import literal, with_feeds
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(19)
F, HALF, BOOL = 1, 10, 9  # the numbers of ONNX's types, for `to`
# What most models take and give.
SAME = "(float[3,8] x) => (float[3,8] y)"
CHOICE = "(float[3,8] x, bool flag) => (float[3,8] y)"
MODELS = {}


def case(name, text, /, **arguments):
    MODELS[name] = with_feeds(text, **arguments)


def random(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


# A Cast to float whose output a converter declares float16.
case("kept_cast", f"""(float[2,8] x, int64[8] n) => (float[2,8] z) <float[8] c>
    {{ c = Cast<to={F}>(n) y = MatMul(x, w) z = Add(y, c) }}""",
    x=random(2, 8), n=np.arange(8), w=random(8, 8))
# Positions beyond 2048, and frame counts.
case("positions", f"""(float[2,5000] x) => (float[2,4] y) {{
    shape = Shape(x) frames = Gather(shape, one) positions = Range(zero, frames, step)
    float_positions = Cast<to={F}>(positions) phase = Mul(float_positions, rate) sine = Sin(phase)
    shifted = Mul(x, sine) y = MatMul(shifted, w) }}""",
    one=np.int64(1), zero=np.int64(0), step=np.int64(1), rate=np.float32(0.3), w=random(5000, 4, scale=0.01),
    x=random(2, 5000))
# A length that is a float on its way to an index.
case("lengths", f"""(float[5000,2] x, int64[1] n) => (float[2] y) {{
    f = Cast<to={F}>(n) g = Mul(f, ratio) h = Ceil(g) i = Cast<to=7>(h) s = Slice(x, start, i, axis)
    t = MatMul(s, w) y = ReduceMax<axes=[0], keepdims=0>(t) }}""",
    ratio=np.float32(0.999), start=np.zeros(1, np.int64), axis=np.zeros(1, np.int64), w=random(2, 2),
    x=random(5000, 2), n=np.array([4099]))
# Layer normalization of plain operators, whose epsilon float16 has no place for.
case("epsilon", """(float[4,16] x) => (float[4,16] y) {
    h = MatMul(x, w) mean = ReduceMean<axes=[-1]>(h) d = Sub(h, mean) p = Pow(d, two) v = ReduceMean<axes=[-1]>(p)
    a = Add(v, epsilon) s = Sqrt(a) n = Div(d, s) g = Mul(n, gamma) y = MatMul(g, w) }""",
    w=random(16, 16), two=np.float32(2), epsilon=np.float32(1e-12), gamma=random(16), x=random(4, 16) * np.float32(300))
# An initializer that a narrow and a sensitive node read.
case("shared_initializer", f"""{SAME} {{
    h = MatMul(x, w) m = Mul(h, s) l = MatMul(m, w) a = Add(l, s) p = Softmax(a) y = Mul(p, s) }}""",
    w=random(8, 8), s=random(8), x=random(3, 8))
case("resize", """(float[1,3,8,8] x) => (float[1,3,18,18] y)
    { c = Conv<pads=[1, 1, 1, 1]>(x, k) r = Resize(c, , scales) y = Conv(r, k) }""",
    k=random(3, 3, 3, 3), scales=np.array([1, 1, 2.5, 2.5], np.float32), x=random(1, 3, 8, 8))
# Nodes without names, and values that look like what a converter would call its Casts.
case("unnamed", f"""{SAME}
    {{ x_float16 = MatMul(x, w) y_float = Softmax(x_float16) y_cast = MatMul(y_float, w) y = Softmax(y_cast) }}""",
    w=random(8, 8), x=random(3, 8))
# A value that several sensitive nodes read, and several narrow ones.
case("two_readers", f"""{SAME} {{
    h = MatMul(x, w) a = Softmax(h) b = Softmax<axis=0>(h) c = LogSoftmax(h) d = MatMul(a, w)
    e = MatMul(a, w) y = Sum(b, c, d, e) }}""",
    w=random(8, 8), x=random(3, 8))


def branch(name, op_type):
    """A branch that captures a value, and has an initializer of the name that the other's has."""
    return f"""{name} () => (float[3,8] {name}_out) <{literal(random(8), "k")}>
    {{ {name}_m = {op_type}(h, k) {name}_s = Softmax({name}_m) {name}_out = MatMul({name}_s, w) }}"""


case("branches", f"""{CHOICE} {{ h = MatMul(x, w)
    i = If<then_branch = {branch("then", "Mul")}, else_branch = {branch("else", "Add")}>(flag) y = Add(i, h) }}""",
    w=random(8, 8), x=random(3, 8), flag=np.array(True))
# A state that the body makes in another type than it takes, and a scan output.
case("loop", """(float[3,8] x) => (float[3,8] y, float[3,3,8] logs) { h = MatMul(x, w)
    end, logs = Loop<body = body (int64 i, bool go, float[3,8] state) => (bool on, float[3,8] next, float[3,8] l) {
        m = MatMul(state, w) s = Softmax(m) next = Add(s, state) on = Identity(go) l = Log(s) }>(n, t, h)
    y = MatMul(end, w) }""",
    w=random(8, 8), n=np.int64(3), t=np.array(True), x=random(3, 8))
case("scan", """(float[5,8] x) => (float[5,8] y, float[8] sum) { h = MatMul(x, w)
    sum, all = Scan<body = body (float[8] state, float[8] element) => (float[8] next, float[8] out)
        { next = Add(state, element) out = Softmax(next) }, num_scan_inputs=1>(start, h)
    y = MatMul(all, w) }""",
    w=random(8, 8), start=np.zeros(8, np.float32), x=random(5, 8))
# A generator whose type follows its input's.
case("random_like", f"""{SAME} {{ h = MatMul(x, w) r = RandomNormalLike<mean=1.5, scale=1e-30>(h) y = Mul(h, r) }}""",
    w=random(8, 8), x=random(3, 8))
# A value that the model rounds to float16 on purpose.
case("meaningful_pair", f"""{SAME} {{
    h = MatMul(x, w) s = Softmax(h) half = Cast<to={HALF}>(s) back = Cast<to={F}>(half) y = Log(back) }}""",
    w=random(8, 8), x=random(3, 8))
# An output that a node reads too, and two outputs of one value.
case("read_output", """(float[3,8] x) => (float[3,8] y, float[3,8] z, float[3,8] p, float[3,8] again)
    { y = MatMul(x, w) r = Relu(y) z = MatMul(r, w) p = Softmax(z) again = Identity(y) }""",
    w=random(8, 8), x=random(3, 8))
# An input that is cast straight to an output, one that is an output, and an initializer that is one.
case("straight", f"""(float[3,8] x) => (float16[3,8] y, float[3,8] z, float[3,8] a, float[3,8] x, float[8] k)
    {{ y = Cast<to={HALF}>(x) h = MatMul(x, w) z = Identity(x) a = Add(h, k) }}""",
    w=random(8, 8), k=random(8), x=random(3, 8))
case("stale_value_info", f"""{SAME} <float[3,8] h, float[3,8] r, float[3,8] s> {{
    h = MatMul(x, w) r = Relu(h) s = Softmax(r) y = MatMul(s, w) }}""",
    w=random(8, 8), x=random(3, 8))
# Inputs that are left out: of Clip the least, of Resize (above) the region.
case("left_out", f"""{SAME} {{ h = MatMul(x, w) c = Clip(h, , most) y = Dropout(c) }}""",
    w=random(8, 8), most=np.float32(0.5), x=random(3, 8))
# A model of float that has one weight in float16 already.
case("one_half_initializer", f"""{SAME} {{ w = Cast<to={F}>(v) h = MatMul(x, w) y = MatMul(h, u) }}""",
    v=random(8, 8).astype(np.float16), u=random(8, 8), x=random(3, 8))
# Squares that float16 has no place for: Pow, ReduceMean and InstanceNormalization.
case("overflow_inside", """(float[1,3,4,4] x) => (float[1,2,4,4] y) {
    h = Mul(x, big) p = Pow(h, two) m = ReduceMean<axes=[-1]>(p) r = Sqrt(m) d = Div(h, r)
    n = InstanceNormalization(h, one, zero) a = Add(d, n) y = Conv(a, k) }""",
    big=np.float32(900), two=np.float32(2), one=np.ones(3, np.float32), zero=np.zeros(3, np.float32),
    k=random(2, 3, 1, 1), x=random(1, 3, 4, 4))
# Attention with a mask of the lowest float, a row of which hides everything: no NaN, but no meaning either.
HIDDEN = np.tril(np.ones((6, 6), np.int64))
HIDDEN[3] = 0
case("mask", f"""(float[6,8] x, int64[6,6] m) => (float[6,8] y) {{
    q = MatMul(x, w) k = Transpose<perm=[1, 0]>(q) scores = MatMul(q, k) b = Cast<to={BOOL}>(m)
    bias = Where(b, zero, lowest) masked = Add(scores, bias) p = Softmax(masked) attended = MatMul(p, q)
    y = Mul(attended, visible) }}""",
    w=random(8, 8), zero=np.float32(0), lowest=np.finfo(np.float32).min,
    visible=HIDDEN.any(1, keepdims=True).astype(np.float32), x=random(6, 8), m=HIDDEN)
# The same as a ConstantOfShape, a Trilu and -1e9.
case("constant_mask", """(float[6,8] x) => (float[6,8] y) {
    q = MatMul(x, w) k = Transpose<perm=[1, 0]>(q) scores = MatMul(q, k) shape = Shape(scores)
    all = ConstantOfShape<value = float[1] v {-1e9}>(shape) bias = Trilu(all, one) masked = Add(scores, bias)
    p = Softmax(masked) y = MatMul(p, q) }""",
    w=random(8, 8, scale=0.1), one=np.int64(1), x=random(6, 8))
# Weights beyond float16, and tiny ones.
case("large_weight", f"""{SAME} {{ h = MatMul(x, w) y = MatMul(h, large) }}""",
    w=random(8, 8, scale=1e-9), large=random(8, 8, scale=1e9), x=random(3, 8))
# A function that is called with float and with float16, and one that calls it.
case("functions", f"""{SAME} {{ a = local.Block(x, w, s) half = Cast<to={HALF}>(a) half_s = Cast<to={HALF}>(s)
    b = local.Norm(half, half_s) c = Cast<to={F}>(b) d = local.Norm(a, s) y = Add(c, d) }}""",
    functions="""<domain: "local", opset_import: ["" : 17]> Norm (x, s) => (y)
    { p = Softmax(x) m = Mul(p, s) y = Add(m, m) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]> Block (x, w, s) => (y)
    { h = MatMul(x, w) n = local.Norm(h, s) y = MatMul(n, w) }""",
    domains=["local"], w=random(8, 8), s=random(8), x=random(3, 8))
# Constants of every spelling, in the graph and in a branch.
case("constants", f"""{CHOICE} {{ two = Constant<value_float=2.0>() w = Constant<value = {literal(random(8, 8))}>()
    h = MatMul(x, w) t = Mul(h, two) s = Softmax(t) u = Mul(s, two)
    i = If<else_branch = else () => (float[3,8] else_out) {{ else_out = Softmax(h) }},
        then_branch = then () => (float[3,8] then_out)
        {{ k = Constant<value_floats=[{", ".join(["0.5"] * 8)}]>() then_out = Mul(h, k) }}>(flag)
    y = Add(u, i) }}""",
    x=random(3, 8), flag=np.array(True))
case("sequences", f"""{SAME} {{
    h = MatMul(x, w) parts = SplitToSequence<axis=0, keepdims=1>(h) first = SequenceAt(parts, one)
    whole = ConcatFromSequence<axis=0>(parts) s = Softmax(whole) y = Add(s, first) }}""",
    w=random(8, 8), one=np.int64(1), x=random(3, 8))
# An opset and a version of the format in which initializers are inputs.
case("old_format", """(float[3,8] x, float[8,8] w, float[8] k) => (float[3,8] y)
    { h = MatMul(x, w) s = Softmax(h) m = Mul(s, k) n = Mul(h, k) l = MatMul(n, w) y = Add(m, l) }""",
    opset=9, ir=3, defaults="wk", w=random(8, 8), k=random(8), x=random(3, 8))
# An initializer that a caller may replace.
case("default_input", """(float[3,8] x, float[8] k) => (float[3,8] y) { h = MatMul(x, w) y = Mul(h, k) }""",
    defaults="k", w=random(8, 8), k=random(8), x=random(3, 8))
# Weights behind a DequantizeLinear.
case("quantized", f"""{SAME} {{ w = DequantizeLinear(q, s) h = MatMul(x, w) y = Relu(h) }}""",
    q=RANDOM.integers(-127, 127, (8, 8)).astype(np.int8), s=np.float32(0.01), x=random(3, 8))
case("recurrent", """(float[5,2,8] x) => (float[5,2,4] y, float[1,2,4] last)
    { all, last = LSTM<hidden_size=4>(x, w, r, b) s = Squeeze(all, one) y = Softmax(s) }""",
    w=random(1, 16, 8), r=random(1, 16, 4), b=random(1, 32), one=np.array([1]), x=random(5, 2, 8))
# Many cheap nodes between two matrix products: no Cast but at the border.
CHEAP = " ".join(f"h{index + 1} = {['Relu', 'Neg', 'Abs', 'Identity'][index % 4]}(h{index})" for index in range(40))
case("everything_narrow", f"{SAME} {{ h0 = MatMul(x, w) {CHEAP} y = MatMul(h40, w) }}", w=random(8, 8), x=random(3, 8))


def norm(x, y, opset, p, cast=False, twice=False, product=False, affine=("gamma", "beta")):
    """A layer normalization as exporters write it, with names that begin with `p`: with a Cast before Pow, the
    difference twice, a product by 1 / x for the quotient."""
    axis, given = ("<axes=[-1]>", "") if opset < 18 else ("", ", axis")
    squared = f"{p}_other" if twice else f"{p}_d"
    nodes = [f"{p}_m = ReduceMean{axis}({x}{given})", f"{p}_d = Sub({x}, {p}_m)"]
    nodes += [f"{squared} = Sub({x}, {p}_m)"] if twice else []
    nodes += [f"{p}_c = Cast<to={F}>({squared})"] if cast else []
    nodes += [f"{p}_p = Pow({f'{p}_c' if cast else squared}, two)", f"{p}_v = ReduceMean{axis}({p}_p{given})"]
    nodes += [f"{p}_a = Add({p}_v, epsilon)", f"{p}_s = Sqrt({p}_a)"]
    nodes += [f"{p}_r = Div(one, {p}_s)", f"{p}_n = Mul({p}_d, {p}_r)"] if product else [f"{p}_n = Div({p}_d, {p}_s)"]
    return " ".join([*nodes, f"{p}_g = Mul({affine[0]}, {p}_n)", f"{y} = Add({p}_g, {affine[1]})"])


def rms_norm(x, y, opset, p, reciprocal=False):
    """The same of root mean squares."""
    axis, given = ("<axes=[-1]>", "") if opset < 18 else ("", ", axis")
    quotient = f"{p}_r = Reciprocal({p}_s) {p}_n = Mul({x}, {p}_r)" if reciprocal else f"{p}_n = Div({x}, {p}_s)"
    return f"""{p}_p = Pow({x}, two) {p}_v = ReduceMean{axis}({p}_p{given}) {p}_a = Add({p}_v, epsilon)
    {p}_s = Sqrt({p}_a) {quotient} {y} = Mul({p}_n, gamma)"""


# Blocks as transformers have them: norms of inputs, of what a product gives, of sums, before outputs and products.
# onnxruntime fuses these, and drops Casts when it does.
SCALARS = {"two": 2, "epsilon": 1e-5, "one": 1, "half": 0.5, "root": 1.41421356}
for suffix, opset in (("", 17), ("_13", 13), ("_18", 18)):
    case(f"layer_norms{suffix}", f"""(float[8,16] x) => (float[8,16] y, float[8,16] z, float[8,16] t) {{
        {norm("x", "n0", opset, "first")} q = MatMul(n0, w) {norm("q", "n1", opset, "second", twice=True)}
        k = MatMul(n1, w) sum = Add(k, q) {norm("sum", "n2", opset, "third", cast=True)}
        wide = MatMul(n2, w) biased = Add(wide, beta) gelu_d = Div(biased, root) gelu_e = Erf(gelu_d)
        gelu_a = Add(gelu_e, one) gelu_m = Mul(biased, gelu_a) gelu = Mul(gelu_m, half) h = MatMul(gelu, w)
        sum2 = Add(h, sum) {norm("sum2", "n3", opset, "shared", product=True)} p = Softmax(sum2) o = MatMul(n3, w)
        sum3 = Add(o, p) {rms_norm("sum3", "n4", opset, "rms")} v = MatMul(n4, w)
        {rms_norm("v", "n5", opset, "root", reciprocal=True)} u = MatMul(n5, w)
        {norm("u", "y", opset, "last")} {norm("x", "z", opset, "between")} {norm("z", "n6", opset, "behind")}
        t = MatMul(n6, w) }}""",
        opset=opset, **{name: np.float32(value) for name, value in SCALARS.items()}, w=random(16, 16, scale=0.25),
        gamma=random(16, scale=0.1) + 1, beta=random(16), **({"axis": np.array([-1])} if opset >= 18 else {}),
        x=random(8, 16))
# A normalization in a function, whose argument is cast where it is called.
case("layer_norm_function", """(float[4,16] x) => (float[4,16] y)
    { h = MatMul(x, w) n = local.Norm(h, gamma, beta) y = Identity(n) }""",
    functions=f"""<domain: "local", opset_import: ["" : 17]> Norm (a, s, t) => (b)
    {{ two = Constant<value = float two {{2}}>() epsilon = Constant<value = float epsilon {{1e-5}}>()
    {norm("a", "b", 17, "inner", affine="st")} }}""",
    domains=["local"], w=random(16, 16, scale=0.25), gamma=random(16) + 1, beta=random(16), x=random(4, 16))
# A sparse constant, which the text has no form for.
case("sparse_constant", f"{SAME} {{ h = MatMul(x, s) y = MatMul(h, w) }}", w=random(8, 8), x=random(3, 8))
VALUES = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "s")
PLACES = numpy_helper.from_array(np.array([0, 10, 63]), "s_at")
SPARSE = helper.make_node("Constant", [], ["s"], sparse_value=helper.make_sparse_tensor(VALUES, PLACES, [8, 8]))
MODELS["sparse_constant"][0].graph.node.insert(0, SPARSE)
# com.microsoft's QGemm, which gives integers where there is a zero point for them, and floats elsewhere.
case("quantized_gemm", f"""{SAME} {{ q = QuantizeLinear(x, s, i) g = com.microsoft.QGemm(q, s, i, v, s, i, , s, i)
    d = DequantizeLinear(g, s, i) f = com.microsoft.QGemm(q, s, i, v, s, i) sum = Add(d, f) y = MatMul(sum, w) }}""",
    domains=["com.microsoft"], s=np.float32(0.05), i=np.int8(0), v=RANDOM.integers(-90, 90, (8, 8)).astype(np.int8),
    w=random(8, 8), x=random(3, 8))

# A Cast to float behind a DequantizeLinear that gives float16. Without it onnxruntime would fuse the DequantizeLinear
# with a MatMul of another type than its scale, and then refuse the model.
case("dequantized_narrow", f"""{SAME} {{
    d = DequantizeLinear<axis=1, output_dtype={HALF}>(q, s) c = Cast<to={F}>(d) h = MatMul(x, c) y = Relu(h) }}""",
    opset=23, ir=10, q=RANDOM.integers(-100, 100, (8, 8)).astype(np.int8), s=np.full(8, 0.01, np.float32),
    x=random(3, 8))
# Squares of some hundreds, added up inside of an operator.
case("squares_inside", """(float[1,8,9,9] x) => (float[1,8,9,9] y)
    { c = Conv(x, k) l = LRN<size=5, alpha=0.0001>(c) y = Conv(l, k) }""",
    k=np.eye(8, dtype=np.float32)[:, :, None, None], x=random(1, 8, 9, 9, scale=400))


def made():
    """Each model with its name and inputs."""
    return ((name, *made) for name, made in MODELS.items())
