//! Sums: those whose parts nearly cancel, quotients of two, and those that an index makes.

use super::*;

#[test]
fn differences_of_squares() {
    let nodes = |square: &str| {
        between(vec![
            scalar("two", 2.0),
            if square == "Pow" { plain("Pow", &["h", "two"], "q") } else { plain("Mul", &["h", "h"], "q") },
            plain("GlobalAveragePool", &["q"], "a"),
            plain("GlobalAveragePool", &["h"], "m"),
            plain("Mul", &["m", "m"], "b"),
            plain("Sub", &["a", "b"], "r"),
        ])
    };
    for to in BOTH {
        for square in ["Pow", "Mul"] {
            let operators = [square, "GlobalAveragePool", "GlobalAveragePool", "Mul", "Sub"];
            cancels(nodes(square), to, &operators);
        }
        // Of two values, and of what is not squared.
        let apart =
            vec![plain("Mul", &["h", "h"], "q"), plain("Mul", &["h0", "h0"], "p"), plain("Sub", &["q", "p"], "r")];
        let plain_difference =
            vec![plain("Relu", &["h"], "a"), plain("GlobalAveragePool", &["a"], "m"), plain("Sub", &["a", "m"], "r")];
        [apart, plain_difference].into_iter().for_each(|nodes| stays(between(nodes), to, &[], ""));
    }
}

/// Checks that operators stay float for squares that nearly cancel, some of them as a sum of squares is kept anyway.
fn cancels(nodes: Vec<Message>, to: DataType, operators: &[&str]) {
    let kept = kept(nodes, to);
    assert_eq!(kept.iter().map(|(operator, _)| operator.as_str()).collect::<Vec<_>>(), operators, "{to}: {kept:?}");
    let others = kept.iter().filter(|(_, why)| why != "a mean of squares");
    others.for_each(|(_, why)| assert!(why.starts_with("parts that nearly cancel of node"), "{to}: {kept:?}"));
}

fn codes() -> Message {
    constant("c", &[6, 6], &[0.25; 36])
}

/// The square of a distance, as PointNet++ writes it, as a Gemm adds the norms, and as torch joins them for one product.
#[test]
fn squares_of_distances() {
    let norm = || vec![plain("Mul", &["h", "h"], "q"), plain("ReduceSum", &["q"], "n")];
    for to in BOTH {
        let written = vec![
            scalar("two", -2.0),
            plain("Transpose", &["h"], "t"),
            plain("MatMul", &["h", "t"], "p"),
            plain("Mul", &["p", "two"], "d"),
            plain("Neg", &["n"], "m"),
            plain("Sub", &["m", "d"], "s"),
            plain("Transpose", &["n"], "u"),
            plain("Sub", &["s", "u"], "r"),
        ];
        let operators = ["Mul", "ReduceSum", "Transpose", "MatMul", "Mul", "Neg", "Sub", "Transpose", "Sub"];
        cancels(between([norm(), written].concat()), to, &operators);
        let einsum = vec![codes(), plain("Einsum", &["h", "c"], "p"), plain("Sub", &["n", "p"], "r")];
        // Einsum has no bfloat16 at this opset anyway.
        let operators =
            ["Mul", "ReduceSum", "Einsum", "Sub"].iter().filter(|&&one| to == DataType::Float16 || one != "Einsum");
        cancels(between([norm(), einsum].concat()), to, &operators.copied().collect::<Vec<_>>());
        let gemm = vec![codes(), plain("Gemm", &["h", "c", "n"], "r")];
        cancels(between([norm(), gemm].concat()), to, &["Mul", "ReduceSum", "Gemm"]);
        let joined = vec![
            scalar("two", -2.0),
            scalar("one", 1.0),
            plain("Mul", &["h", "two"], "d"),
            plain("Concat", &["d", "n", "one"], "j"),
            codes(),
            plain("MatMul", &["j", "c"], "r"),
        ];
        let operators = ["Mul", "ReduceSum", "Mul", "Concat", "MatMul"];
        cancels(between([norm(), joined].concat()), to, &operators);
    }
}

#[test]
fn products_that_nearly_cancel() {
    for to in BOTH {
        // A mixture of normal distributions, its squares weighed; a Gram matrix of means; and a covariance.
        let mixture = vec![
            scalar("two", 2.0),
            plain("Pow", &["h", "two"], "q"),
            codes(),
            plain("MatMul", &["q", "c"], "a"),
            plain("MatMul", &["h", "c"], "b"),
            plain("Add", &["a", "b"], "r"),
        ];
        cancels(between(mixture), to, &["Pow", "MatMul", "MatMul", "Add"]);
        let product_of_means = |one: &str, other: &str| {
            vec![
                plain("MatMul", &[one, other], "p"),
                plain("ReduceMean", &[one], "m"),
                plain("ReduceMean", &[other], "n"),
                plain("MatMul", &["m", "n"], "e"),
                plain("Sub", &["p", "e"], "r"),
            ]
        };
        let operators = ["MatMul", "ReduceMean", "ReduceMean", "MatMul", "Sub"];
        let gram = [vec![plain("Transpose", &["h"], "t")], product_of_means("t", "h")].concat();
        cancels(between(gram), to, &operators);
        cancels(between(product_of_means("h", "z")), to, &operators);
    }
}

/// Polynomials of elements, a cubic activation, magnitudes, a residual connection, and a rotation.
#[test]
fn squares_that_do_not_cancel() {
    for to in BOTH {
        let others = [
            vec![plain("Mul", &["h", "h"], "q"), plain("Concat", &["h", "q"], "r")],
            vec![plain("Mul", &["h", "h"], "q"), plain("Mul", &["q", "h"], "c"), plain("Add", &["h", "c"], "r")],
            vec![plain("Mul", &["h", "h"], "q"), plain("Mul", &["h0", "h0"], "p"), plain("Add", &["q", "p"], "r")],
            vec![
                plain("Relu", &["h"], "a"),
                plain("Mul", &["a", "a"], "q"),
                plain("MatMul", &["q", "w"], "m"),
                plain("Add", &["m", "h"], "r"),
            ],
            vec![plain("Mul", &["h", "h0"], "q"), plain("Mul", &["h", "x"], "p"), plain("Sub", &["q", "p"], "r")],
        ];
        others.into_iter().for_each(|nodes| cancels(between(nodes), to, &[]));
    }
}

#[test]
fn differences_of_what_is_exact() {
    for to in BOTH {
        let nodes = |of: &str| vec![plain("ReduceMax", &[of], "m"), plain("Sub", &[of, "m"], "r")];
        stays(between(nodes("z")), to, &["ReduceMax", "Sub"], "parts that nearly cancel of node");
        stays(between(nodes("h")), to, &[], "");
    }
}

#[test]
fn quotients_of_sums() {
    let why = "a quotient of sums that may overflow of node";
    let attention = |divide: Vec<Message>| {
        let nodes = vec![
            plain("Relu", &["h"], "k"),
            plain("MatMul", &["k", "h0"], "kv"),
            plain("MatMul", &["k", "kv"], "above"),
            plain("ReduceSum", &["k"], "sums"),
            plain("MatMul", &["k", "sums"], "below"),
        ];
        between([nodes, divide].concat())
    };
    let divided = || vec![plain("Div", &["above", "below"], "r")];
    let sums = ["MatMul", "MatMul", "ReduceSum", "MatMul"];
    stays(attention(divided()), DataType::Float16, &[&sums[..], &["Div"]].concat(), why);
    stays(attention(divided()), DataType::BFloat16, &[], "");
    let by_part = vec![plain("Reciprocal", &["below"], "part"), plain("Mul", &["part", "above"], "r")];
    stays(attention(by_part), DataType::Float16, &[&sums[..], &["Reciprocal", "Mul"]].concat(), why);
    // A mean is no larger than what it is of, and neither is a part of one sum.
    let mean = vec![plain("ReduceMean", &["h"], "m"), plain("Div", &["h", "m"], "r")];
    let overlap = vec![plain("Sub", &["h0", "h"], "d"), plain("Add", &["d", "h"], "s"), plain("Div", &["h", "s"], "r")];
    [mean, overlap].into_iter().for_each(|nodes| stays(between(nodes), DataType::Float16, &[], ""));
}

#[test]
fn sums_by_index() {
    for to in BOTH {
        for (reduction, operators) in [("add", &["ScatterND"][..]), ("none", &[])] {
            let reduction = Message::new().bytes(1, "reduction").bytes(4, reduction).int(20, 3);
            let indices = tensor(&[1, 1], 7, &[0; 8]);
            let indices = Message::new().bytes(1, "value").message(5, indices).int(20, 4);
            let scatter = node("ScatterND", &["h", "i", "h0"], "r", vec![reduction]);
            stays(between(vec![node("Constant", &[], "i", vec![indices]), scatter]), to, operators, "a sum by index");
        }
    }
}
