"""Models parts of which need more digits, or more range, than float16 or bfloat16 have; each with inputs. Beside them
some that look alike and need no more, and must become narrow as a whole. crates/testkit/data/exports.zip has others, as
both exporters of torch 2.15.0 wrote them (`torch.onnx.export` with and without `dynamo`; a loop by TorchScript alone),
with inputs: the times of a diffusion model, Fourier features of coordinates, a radiance field, attention with a mask, a
picture that is warped, logarithms of probabilities, a differential equation in 3,000 steps, and E[x^2] - E[x]^2. Commit
5481022b has the program that wrote them.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
from graphs import with_feeds

EXPORTS = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "exports.zip"
SENSITIVE, NARROW = {}, {}


def random(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def uniform(seed, *shape):
    return np.random.default_rng(seed).random(shape, np.float32)


def eye(size):
    return np.eye(size, dtype=np.float32)


def case(name, text, /, models=SENSITIVE, opset=22, **arguments):
    """A model, whose scalars are float32 where they have a point."""
    arrays = {key: np.float32(one) if isinstance(one, float) else one for key, one in arguments.items()}
    models[name] = with_feeds(text, opset=opset, ir=10, **arrays)


ROWS, COLUMNS = "(float[128,8] x) => (float[128,8] y)", "(float[64,8] x) => (float[64,8] y)"
# A sigmoid of plain operators: e / (1 + e), where e overflows in float16 from 11.1 on.
case("exponential_ratio", f"""{ROWS} {{
     h = MatMul(x, w) e = Exp(h) d = Add(e, one) s = Div(e, d) y = MatMul(s, w) }}""",
     w=eye(8), one=1.0, x=random(1, 128, 8, scale=8))
# A hyperbolic tangent of plain operators, by way of a Reshape and a Neg.
case("exponential_difference", f"""{ROWS} {{
     e = Exp(x) n = Neg(x) f = Exp(n) g = Reshape(f, shape) a = Sub(e, g) b = Add(e, g) t = Div(a, b)
     y = MatMul(t, w) }}""",
     w=eye(8), shape=np.array([128, 8]), x=random(2, 128, 8, scale=8))
case("softplus", f"""{ROWS} {{ h = MatMul(x, w) e = Exp(h) d = Add(e, one) s = Log(d) y = MatMul(s, w) }}""",
     w=eye(8), one=1.0, x=random(3, 128, 8, scale=8))
# The probability of two events: Sigmoid(-12) squared is 4e-11, which is zero in float16.
case("log_of_sigmoid", f"""{COLUMNS} {{ h = MatMul(x, w) s = Sigmoid(h) m = Mul(s, s) l = Log(m) y = MatMul(l, w) }}""",
     w=eye(8), x=random(4, 64, 8, scale=8).clip(-12, 12))
# A cross entropy: 1 - Sigmoid(8) is zero in bfloat16.
case("log_of_complement", f"""{COLUMNS} {{
     h = MatMul(x, w) s = Sigmoid(h) c = Sub(one, s) l = Log(c) y = MatMul(l, w) }}""",
     w=eye(8), one=1.0, x=random(5, 64, 8, scale=3))
case("log_of_softmax", f"""{COLUMNS} {{ h = MatMul(x, w) s = Softmax(h) l = Log(s) y = MatMul(l, w) }}""",
     w=eye(8), x=random(6, 64, 8, scale=12))
# A logit as torch exports it: 1 less a limit of 1 - 1e-6, which is one in 16 bits, and so the logarithm of infinity.
case("log_of_clamped", f"""{COLUMNS} {{
     h = MatMul(x, w) s = Sigmoid(h) below = Less(s, least) raised = Where(below, least, s)
     within = LessOrEqual(raised, most) p = Where(within, raised, most) c = Sub(one, p) odds = Div(p, c) l = Log(odds)
     y = MatMul(l, w) }}""",
     w=eye(8), least=1e-6, most=1 - 1e-6, one=1.0, x=random(41, 64, 8, scale=16))
# An inverse hyperbolic tangent at the end of its domain, which is infinite if a factor of 0.9999 is one.
case("steep_inverse", f"""{COLUMNS} {{ h = MatMul(x, w) t = Tanh(h) a = Mul(t, k) l = Atanh(a) y = MatMul(l, w) }}""",
     w=eye(8), k=0.9999, x=random(42, 64, 8, scale=4))
# Angles of a float: the time of a diffusion model, up to 1000.
case("timestep_embedding", """(float[64] t) => (float[64,8] y) {
     column = Unsqueeze(t, last) angles = Mul(column, frequencies) s = Sin(angles) c = Cos(angles)
     both = Concat<axis=-1>(s, c) y = MatMul(both, w) }""",
     last=np.array([1]), frequencies=np.exp(-np.log(10000) * np.arange(16) / 16).astype(np.float32),
     w=random(7, 32, 8, scale=0.2), t=np.random.default_rng(7).uniform(0, 1000, 64).astype(np.float32))
# Angles by a matrix product: coordinates times random frequencies.
case("fourier_features", """(float[64,3] x) => (float[64,8] y) {
     p = MatMul(x, b) angles = Mul(p, turn) s = Sin(angles) c = Cos(angles) both = Concat<axis=-1>(s, c)
     y = MatMul(both, w) }""",
     b=random(8, 3, 32, scale=10), turn=2 * np.pi, w=random(9, 64, 8, scale=0.2), x=uniform(8, 64, 3))
# Angles of a radiance field: coordinates times powers of two, behind a shift.
case("positional_encoding", """(float[64,3] x) => (float[64,8] y) {
     shifted = Sub(x, center) column = Unsqueeze(shifted, last) angles = Mul(column, octaves) s = Sin(angles)
     flat = Reshape(s, shape) y = MatMul(flat, w) }""",
     center=np.float32([0.5, 0.25, 0.125]), last=np.array([2]), shape=np.array([64, 30]),
     octaves=(2.0 ** np.arange(10) * np.pi).astype(np.float32), w=random(10, 30, 8, scale=0.2), x=uniform(9, 64, 3))
# A picture that is sampled where a grid says, which is an affine map of regular places.
SIZE = 48
PLACES = np.meshgrid(*[(np.arange(SIZE, dtype=np.float32) * 2 + 1) / SIZE - 1] * 2, indexing="ij")[::-1]
case("grid_sample", """(float[1,2,48,48] x, float[1,2,3] theta) => (float[1,2,48,48] y) {
     moved = MatMul(theta, base) turned = Transpose<perm=[0, 2, 1]>(moved) grid = Reshape(turned, shape)
     c = Conv<pads=[1, 1, 1, 1]>(x, k) y = GridSample<align_corners=0>(c, grid) }""",
     base=np.stack([*(one.ravel() for one in PLACES), np.ones(SIZE * SIZE, np.float32)]),
     shape=np.array([1, SIZE, SIZE, 2]), k=random(11, 2, 2, 3, 3), x=random(12, 1, 2, SIZE, SIZE),
     theta=np.float32([[[0.9, 0.2, 0.05], [-0.2, 0.95, -0.03]]]))
# The same with offsets that a network predicts, added to places that are a constant.
case("flow_warp", """(float[1,2,48,48] x) => (float[1,2,48,48] y) {
     h = Conv<pads=[1, 1, 1, 1]>(x, k) r = Relu(h) flow = Conv<pads=[1, 1, 1, 1]>(r, l, bias)
     offsets = Transpose<perm=[0, 2, 3, 1]>(flow) scaled = Mul(offsets, small) grid = Add(places, scaled)
     y = GridSample<align_corners=0>(x, grid) }""",
     k=random(13, 4, 2, 3, 3, scale=0.2), l=random(14, 2, 4, 3, 3, scale=0.2), bias=np.float32([0.01, -0.01]),
     small=0.02, places=np.stack(PLACES, -1)[None], x=random(15, 1, 2, SIZE, SIZE))
# Regions in pixels, whose corners float16 moves by half of one. (onnxruntime has no RoiAlign of opset 22.)
case("regions", """(float[1,1,32,1400] x, float[3,4] boxes) => (float[3,2,4,4] y) {
     scaled = Mul(boxes, scale) c = Conv<pads=[1, 1, 1, 1]>(x, k)
     r = RoiAlign<output_height=4, output_width=4, sampling_ratio=2>(c, scaled, batch) y = Conv(r, l) }""",
     opset=21, scale=0.996, k=random(16, 2, 1, 3, 3), l=random(16, 2, 2, 1, 1), batch=np.zeros(3, np.int64),
     x=random(17, 1, 1, 32, 1400),
     boxes=np.float32([[1100.3, 11.7, 1131.9, 28.2], [1231.4, 1.1, 1250.7, 23.3], [1333.2, 11.6, 1390.1, 29.9]]))


def loop(name, rounds, body, models=SENSITIVE, **arguments):
    """A Loop whose body makes `next` of `state`, beside a product `h` of the input."""
    case(name, f"""(float[4,8] x, int64 n) => (float[4,8] y) {{ h = MatMul(x, w)
         end = Loop<body = body (int64 i, bool go, float[4,8] state) => (bool on, float[4,8] next)
         {{ {body} on = Identity(go) }}>(n, t, start) y = MatMul(end, w) }}""",
         models, w=eye(8), t=np.array(True), n=np.array(rounds), **arguments)


# A state to which something is added, 5,000 times.
ZEROS = np.zeros((4, 8), np.float32)
loop("loop_sum", 5000, "next = Add(state, h)", start=ZEROS, x=np.abs(random(18, 4, 8)) * np.float32(0.01))
# The same by a branch, a Sub and a Mul: steps of a differential equation.
loop("loop_steps", 4000, """step = Mul(h, rate) early = Less(i, limit)
     moved = If<else_branch = other () => (float[4,8] b) { b = Add(state, step) },
                then_branch = then () => (float[4,8] a) { a = Sub(state, step) }>(early)
     next = Reshape(moved, shape)""",
     start=ZEROS, rate=0.003, limit=np.array(300), shape=np.array([4, 8]), x=np.abs(random(19, 4, 8)))
# An average that forgets slowly: what is added is less than half a step of the type.
loop("loop_average", 4000, "kept = Mul(state, old) part = Mul(h, new) next = Add(kept, part)",
     start=ZEROS, old=0.999, new=0.001, x=np.abs(random(20, 4, 8)) + np.float32(1))
# A Scan that adds up, over 5,000 elements.
case("scan_sum", """(float[5000,4] x) => (float[1,4] y) { h = MatMul(x, w)
     end, sums = Scan<body = body (float[4] state, float[4] element) => (float[4] next, float[4] all)
     { next = Add(element, state) all = Identity(next) }, num_scan_inputs=1>(start, h)
     row = Unsqueeze(end, first) y = MatMul(row, w) }""",
     w=eye(4), start=np.zeros(4, np.float32), first=np.array([0]), x=np.abs(random(21, 5000, 4)) * np.float32(0.01))
# Attention whose mask is computed from integers, times float32's lowest number. A row is hidden as a whole.
MASK = np.tril(np.ones((6, 6), np.int64))
MASK[3] = 0
case("lowest_mask", """(float[6,8] x, int64[6,6] m) => (float[6,8] y) {
     q = MatMul(x, w) k = Transpose<perm=[1, 0]>(q) scores = MatMul(q, k) visible = Cast<to=1>(m)
     hidden = Sub(one, visible) bias = Mul(hidden, lowest) masked = Add(scores, bias) p = Softmax(masked)
     attended = MatMul(p, q) any = ReduceMax<keepdims=1>(m, last) seen = Cast<to=1>(any) y = Mul(attended, seen) }""",
     w=random(22, 8, 8, scale=0.5), one=1.0, lowest=np.finfo(np.float32).min, last=np.array([1]), x=random(23, 6, 8),
     m=MASK)
# E[x^2] - E[x]^2, of what is far from zero.
case("variance_of_squares", """(float[16,64] x) => (float[16,64] y) {
     h = MatMul(x, w) squares = Mul(h, h) a = ReduceMean<keepdims=1>(squares, last)
     mean = ReduceMean<keepdims=1>(h, last) b = Pow(mean, two) variance = Sub(a, b) safe = Add(variance, epsilon)
     deviation = Sqrt(safe) centered = Sub(h, mean) n = Div(centered, deviation) y = MatMul(n, w) }""",
     w=eye(64), last=np.array([1]), two=2.0, epsilon=1e-5, x=random(24, 16, 64, scale=2) + np.float32(10))
# The same as an output, and with a Mul for the square of the mean.
case("variance_alone", """(float[16,64] x) => (float[16,4] y) {
     h = MatMul(x, w) squares = Pow(h, two) a = ReduceMean<keepdims=1>(squares, last)
     mean = ReduceMean<keepdims=1>(h, last) b = Mul(mean, mean) variance = Sub(a, b) y = MatMul(variance, v) }""",
     w=eye(64), last=np.array([1]), two=2.0, v=random(25, 1, 4), x=random(26, 16, 64, scale=2) + np.float32(10))
# The squares of distances among points and centers, far from zero: a^2 - 2ab + b^2, as point clouds have it.
case("squared_distances", """(float[32,8] x, float[24,8] b) => (float[32,24] y) {
     a = MatMul(x, w) t = Transpose<perm=[1, 0]>(b) p = MatMul(a, t) d = Mul(p, minus) aa = Mul(a, a)
     na = ReduceSum<keepdims=1>(aa, last) s = Add(d, na) bb = Pow(b, two) nb = ReduceSum<keepdims=0>(bb, last)
     q = Add(s, nb) y = Relu(q) }""",
     w=eye(8), minus=-2.0, last=np.array([1]), two=2.0, x=random(43, 32, 8, scale=2) + np.float32(16),
     b=random(44, 24, 8, scale=2) + np.float32(16))
# Distances to the codes of a vector quantizer, whose Gemm adds their norms; an Einsum adds up the norms of inputs.
CODES = random(45, 24, 8, scale=2) + np.float32(16)
case("codebook", """(float[32,8] x) => (float[32,24] y) {
     a = MatMul(x, w) na = Einsum<equation="ij,ij->i">(a, a) column = Unsqueeze(na, last) n = Add(column, norms)
     d = Gemm<alpha=-2.0, transB=1>(a, codes, n) near = Neg(d) y = Div(near, heat) }""",
     w=eye(8), last=np.array([1]), codes=CODES, norms=(CODES**2).sum(1), heat=8.0,
     x=random(46, 32, 8, scale=2) + np.float32(16))
# The same by one product, of vectors that their norms are joined to, as torch.cdist does it.
case("joined_distances", """(float[32,8] x, float[24,8] b) => (float[32,24] y) {
     a = MatMul(x, w) d = Mul(a, minus) aa = Pow(a, two) na = ReduceSum<keepdims=1>(aa, last)
     left = Concat<axis=1>(d, na, ones) bb = Mul(b, b) nb = ReduceSum<keepdims=1>(bb, last)
     right = Concat<axis=1>(b, many, nb) turned = Transpose<perm=[1, 0]>(right) q = MatMul(left, turned)
     squares = Clip(q, zero) y = Sqrt(squares) }""",
     w=eye(8), minus=-2.0, last=np.array([1]), two=2.0, zero=0.0, ones=np.ones((32, 1), np.float32),
     many=np.ones((24, 1), np.float32), x=random(47, 32, 8, scale=2) + np.float32(16),
     b=random(48, 24, 8, scale=2) + np.float32(16))
# Variances and a covariance of two pictures within windows, by convolutions: E[xy] - E[x] E[y].
MEANS = " ".join(f"{one}_mean = Conv({one}, window)" for one in "ab")
PAIRS = " ".join(
    f"""{one}{other}_product = Mul({one}, {other}) {one}{other}_mean = Conv({one}{other}_product, window)
    {one}{other}_means = Mul({one}_mean, {other}_mean) {one}{other} = Sub({one}{other}_mean, {one}{other}_means)"""
    for one, other in ("aa", "bb", "ab")
)
PICTURE = uniform(49, 1, 1, 24, 24) * np.float32(0.3) + np.float32(0.6)
case("structural_similarity", f"""(float[1,1,24,24] a, float[1,1,24,24] b) => (float[1,1,18,18] y)
     {{ {MEANS} {PAIRS} both = Add(aa, bb) safe = Add(both, small) y = Div(ab, safe) }}""",
     window=np.full((1, 1, 7, 7), 1 / 49, np.float32), small=9e-4, a=PICTURE,
     b=PICTURE + random(50, 1, 1, 24, 24, scale=0.05))
# Densities of normal distributions, by two products: z^2 p - 2 z m p + m^2 p.
MEANS, PRECISIONS = random(51, 8, 12) + np.float32(8), np.abs(random(52, 8, 12)) + np.float32(0.5)
case("mixture", """(float[32,8] x) => (float[32,12] y) {
     z = MatMul(x, w) q = Mul(z, z) a = MatMul(q, precisions) b = MatMul(z, scaled) s = Add(a, b) y = Add(s, rest) }""",
     w=eye(8), precisions=PRECISIONS, scaled=-2 * MEANS * PRECISIONS, rest=(MEANS**2 * PRECISIONS).sum(0),
     x=random(53, 32, 8) + np.float32(8))
# Points about one of them, in meters, far from the origin.
case("point_differences", """(float[32,3] x) => (float[32,8] y)
     { center = Gather(x, chosen) offsets = Sub(x, center) y = MatMul(offsets, w) }""",
     chosen=np.array([0]), w=random(54, 3, 8), x=random(55, 32, 3, scale=0.1) + np.float32([70, -40, 12]))
# Attention without a Softmax: both sums of a quotient are beyond float16.
case("linear_attention", """(float[64,8] x) => (float[64,8] y) {
     q = MatMul(x, qw) k = MatMul(x, kw) v = MatMul(x, vw) qr = Relu(q) kr = Relu(k) kt = Transpose<perm=[1, 0]>(kr)
     kv = MatMul(kt, v) above = MatMul(qr, kv) sums = ReduceSum<keepdims=0>(kr, first) weighed = Mul(qr, sums)
     below = ReduceSum<keepdims=1>(weighed, last) safe = Add(below, epsilon) part = Reciprocal(safe)
     y = Mul(above, part) }""",
     **{f"{name}w": random(56 + index, 8, 8) for index, name in enumerate("qkv")}, first=np.array([0]),
     last=np.array([1]), epsilon=1e-6, x=random(59, 64, 8, scale=60))
# Cosines of long vectors, whose products float16 does not hold.
case("cosines", """(float[16,64] x, float[16,64] z) => (float[16,4] y) {
     a = MatMul(x, w) b = MatMul(z, w) ab = Mul(a, b) product = ReduceSum<keepdims=1>(ab, last)
     na = ReduceL2<keepdims=1>(a, last) nb = ReduceL2<keepdims=1>(b, last) lengths = Mul(na, nb)
     c = Div(product, lengths) y = MatMul(c, v) }""",
     w=eye(64), v=random(61, 1, 4), last=np.array([1]), x=random(60, 16, 64, scale=60),
     z=random(60, 16, 64, scale=60) + random(62, 16, 64, scale=40))
# Means of what has an index: 3,000 elements are added up one after another.
case("sums_by_index", """(float[3000,8] x, int64[3000,1] i) => (float[4,8] y) {
     h = MatMul(x, w) sums = ScatterND<reduction="add">(zeros, i, h) counts = ScatterND<reduction="add">(none, i, ones)
     y = Div(sums, counts) }""",
     w=eye(8), zeros=ZEROS, none=np.zeros((4, 1), np.float32), ones=np.ones((3000, 1), np.float32),
     x=random(63, 3000, 8) + np.float32(1), i=np.arange(3000)[:, None] % 4)
# What is left after 2,000 rounds, each of which takes a thousandth away: factors that are one in 16 bits.
loop("loop_decays", 2000, "s = Sigmoid(h) gone = Mul(s, rate) left = Sub(one, gone) next = Mul(left, state)",
     start=np.ones((4, 8), np.float32), rate=0.001, one=1.0, x=random(64, 4, 8))
# Which bin of eight an input is in, which both types round across edges.
case("bins", """(float[256] x) => (float[256,4] y, float[4] z) {
     column = Unsqueeze(x, last) below = Less(column, edges) hot = Cast<to=1>(below) y = MatMul(hot, w)
     z = MatMul(x, v) }""",
     last=np.array([1]), edges=np.linspace(100, 101, 8, dtype=np.float32), w=random(65, 8, 4), v=random(66, 256, 4),
     x=np.random.default_rng(67).uniform(100, 101, 256).astype(np.float32))
# What an input is less its mean, in parts of its small deviation.
case("normalized_input", """(float[16,8] x) => (float[16,8] y)
     { c = Sub(x, mean) n = Div(c, deviation) y = MatMul(n, w) }""",
     mean=np.full(8, 1000, np.float32), deviation=np.full(8, 0.5, np.float32), w=random(68, 8, 8),
     x=random(69, 16, 8, scale=0.5) + np.float32(1000))

# Exponentials of what is at most zero: they cannot overflow.
case("bounded_exponential", """(float[16,8] x) => (float[16,8] y) {
     h = MatMul(x, w) r = Relu(h) n = Neg(r) e = Exp(n) d = Add(e, one) s = Div(e, d) y = MatMul(s, w) }""",
     NARROW, w=random(30, 8, 8), one=1.0, x=random(31, 16, 8))
# Angles of at most pi, of what is narrow anyway.
case("bounded_angle", """(float[16,8] x) => (float[16,8] y) {
     h = MatMul(x, w) t = Tanh(h) a = Mul(t, pi) c = Cos(a) y = MatMul(c, w) }""",
     NARROW, w=random(32, 8, 8), pi=np.pi, x=random(33, 16, 8))
# The activation of vocoders: sines of what a second convolution gives, which is rounded already.
ROUNDS = " ".join(
    f"""c{i} = Conv<pads=[1, 1]>(h{i or ''}, k) a{i} = Mul(c{i}, alpha) s{i} = Sin(a{i}) q{i} = Mul(s{i}, s{i})
    h{i + 1} = Add(c{i}, q{i})"""
    for i in range(3)
)
case("snake", f"""(float[1,4,32] x) => (float[1,4,32] y)
     {{ h = Conv<pads=[1, 1]>(x, k) {ROUNDS} y = Conv<pads=[1, 1]>(h3, k) }}""",
     NARROW, k=random(34, 4, 4, 3, scale=0.3), alpha=np.abs(random(35, 4, 1)) + np.float32(0.5), x=random(36, 1, 4, 32))
# A recurrent state that a Tanh bounds, and one that a gate scales.
loop("loop_recurrent", 20, """m = MatMul(state, u) a = Add(m, h) candidate = Tanh(a) gate = Sigmoid(a)
     kept = Mul(gate, state) rest = Sub(one, gate) new = Mul(rest, candidate) next = Add(kept, new)""",
     NARROW, start=ZEROS, u=random(37, 8, 8, scale=0.3), one=1.0, x=random(38, 4, 8))
# Both spellings of GELU, and Swish, between products.
case("gelu", """(float[16,8] x) => (float[16,8] y) {
     h = MatMul(x, w) d = Mul(h, root) e = Erf(d) a = Add(e, one) m = Mul(h, a) g = Mul(m, half) i = MatMul(g, w)
     cube = Pow(i, three) scaled = Mul(cube, c) inner = Add(i, scaled) outer = Mul(inner, root) t = Tanh(outer)
     b = Add(t, one) n = Mul(i, b) k = Mul(n, half) l = MatMul(k, w) s = Sigmoid(l) swish = Mul(l, s)
     y = MatMul(swish, w) }""",
     NARROW, w=random(39, 8, 8, scale=0.4), root=0.7978846, one=1.0, half=0.5, three=3.0, c=0.044715,
     x=random(40, 16, 8))


def sensitive():
    """Each model that needs more in places, with its name and inputs."""
    return ((name, *made) for name, made in SENSITIVE.items())


def narrow():
    """Each model that needs no more anywhere, likewise."""
    return ((name, *made) for name, made in NARROW.items())


def exports():
    """What torch's exporters wrote, with inputs."""
    with zipfile.ZipFile(EXPORTS) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".onnx"):
                held = np.load(io.BytesIO(archive.read(f"{name.split('_')[0]}.npz")))
                exported = onnx.load_from_string(archive.read(name))
                inputs = zip(exported.graph.input, held.files, strict=True)
                yield name.removesuffix(".onnx"), exported, {one.name: held[key] for one, key in inputs}
