//! The inputs, outputs and type constraints of every version of every operator: those of ONNX's own domain and of
//! ai.onnx.ml (`schemas.txt`), and those that onnxruntime adds, com.microsoft's above all (`schemas_onnxruntime.txt`).
//! Both files are written by `scripts/checks/onnx_operators.py` from the packages themselves.

use super::value::ValueType;
use crate::tree::is_default;
use onnx_cast::DataType;
use std::collections::HashMap;
use std::sync::OnceLock;

const ONNX: &str = include_str!("schemas.txt");
const RUNTIME: &str = include_str!("schemas_onnxruntime.txt");

/// A version of an operator.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The first opset of its domain that it is in force at.
    pub(crate) since: i64,
    /// Whether it says the same as the version before but for more types.
    pub(crate) adds_types: bool,
    pub(crate) inputs: Vec<Formal>,
    pub(crate) outputs: Vec<Formal>,
    pub(crate) variables: Vec<Variable>,
}

/// An input or an output.
#[derive(Debug)]
pub(crate) struct Formal {
    pub(crate) name: &'static str,
    pub(crate) arity: Arity,
    pub(crate) of_type: FormalType,
}

/// How often an input or an output is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    Single,
    Optional,
    /// Any number of times; homogeneous if all are of one type.
    Variadic {
        homogeneous: bool,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormalType {
    /// A place among [`Schema::variables`].
    Variable(usize),
    Fixed(ValueType),
}

/// A type variable: wherever it stands in a node, it is one type.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) allowed: TypeSet,
}

/// The types that a variable may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeSet {
    tensors: ElementTypes,
    sequences: ElementTypes,
    optionals: ElementTypes,
    optional_sequences: ElementTypes,
    /// Types of other kinds.
    others: Vec<ValueType>,
}

/// A bit for each type, by ONNX's numbers.
type ElementTypes = u64;

impl Schema {
    /// The version in force at an opset of its domain.
    pub(crate) fn of(domain: &str, op_type: &str, opset: i64) -> Option<&'static Schema> {
        Schema::versions(domain, op_type).iter().rfind(|schema| schema.since <= opset)
    }

    /// The first version of an operator of ONNX's own whose output may be a tensor of a type.
    pub(crate) fn first_giving(op_type: &str, data_type: DataType) -> Option<i64> {
        let gives = |schema: &&Schema| {
            let variable = schema.output(0).and_then(Formal::variable);
            variable.is_some_and(|variable| schema.variables[variable].allowed.tensors(data_type))
        };
        Schema::versions("", op_type).iter().find(gives).map(|schema| schema.since)
    }

    /// All versions, oldest first; none of an operator that is not known.
    pub(crate) fn versions(domain: &str, op_type: &str) -> &'static [Schema] {
        static TABLE: OnceLock<HashMap<Name<'static>, &'static [Schema]>> = OnceLock::new();
        // Kept as long as the program runs: the key of a look-up need not live so long.
        let leak = || read(&[ONNX, RUNTIME]).into_iter().map(|(name, versions)| (name, &*versions.leak())).collect();
        let table: &HashMap<Name<'_>, &'static [Schema]> = TABLE.get_or_init(leak);
        let domain = if is_default(domain) { "ai.onnx" } else { domain };
        table.get(&(domain, op_type)).copied().unwrap_or_default()
    }

    /// The input at a place; the last one where that is variadic.
    pub(crate) fn input(&self, place: usize) -> Option<&Formal> {
        formal(&self.inputs, place)
    }

    /// The output at a place, likewise.
    pub(crate) fn output(&self, place: usize) -> Option<&Formal> {
        formal(&self.outputs, place)
    }
}

fn formal(all: &[Formal], place: usize) -> Option<&Formal> {
    all.get(place).or_else(|| all.last().filter(|last| matches!(last.arity, Arity::Variadic { .. })))
}

impl Formal {
    /// The variable whose type it has. What is variadic and not homogeneous has a type of its own each time.
    pub(crate) fn variable(&self) -> Option<usize> {
        match (self.arity, &self.of_type) {
            (Arity::Variadic { homogeneous: false }, _) | (_, FormalType::Fixed(_)) => None,
            (_, FormalType::Variable(variable)) => Some(*variable),
        }
    }
}

#[allow(dead_code, reason = "the constraints, for what changes types")]
impl TypeSet {
    /// Whether tensors of a type are allowed.
    pub(crate) fn tensors(&self, data_type: DataType) -> bool {
        self.tensors & bit(data_type) != 0
    }

    /// Whether sequences of such tensors are.
    pub(crate) fn sequences(&self, data_type: DataType) -> bool {
        self.sequences & bit(data_type) != 0
    }

    /// Whether optional tensors are.
    pub(crate) fn optionals(&self, data_type: DataType) -> bool {
        self.optionals & bit(data_type) != 0
    }

    /// Whether optional sequences are.
    pub(crate) fn optional_sequences(&self, data_type: DataType) -> bool {
        self.optional_sequences & bit(data_type) != 0
    }

    /// Whether a type is allowed.
    pub(crate) fn contains(&self, of_type: &ValueType) -> bool {
        let (sequence, tensor) = match of_type {
            ValueType::Tensor(data_type) => return self.tensors(*data_type),
            ValueType::Sequence(element) => (false, element),
            ValueType::Optional(inner) => match &**inner {
                ValueType::Tensor(data_type) => return self.optionals(*data_type),
                ValueType::Sequence(element) => (true, element),
                _ => return self.others.contains(of_type),
            },
            _ => return self.others.contains(of_type),
        };
        match (&**tensor, sequence) {
            (ValueType::Tensor(data_type), false) => self.sequences(*data_type),
            (ValueType::Tensor(data_type), true) => self.optional_sequences(*data_type),
            _ => self.others.contains(of_type),
        }
    }

    /// Whether every type of another set is allowed.
    pub(crate) fn covers(&self, other: &TypeSet) -> bool {
        let kinds = |set: &TypeSet| [set.tensors, set.sequences, set.optionals, set.optional_sequences];
        kinds(self).iter().zip(kinds(other)).all(|(all, some)| some & !all == 0)
            && other.others.iter().all(|of_type| self.others.contains(of_type))
    }

    /// The type, where there is one only, of a tensor.
    pub(crate) fn only_tensor(&self) -> Option<DataType> {
        let others = self.sequences | self.optionals | self.optional_sequences;
        if self.tensors.count_ones() != 1 || others != 0 || !self.others.is_empty() {
            return None;
        }
        DataType::ALL.iter().copied().find(|&data_type| self.tensors(data_type))
    }
}

fn bit(data_type: DataType) -> ElementTypes {
    1 << data_type.onnx()
}

/// A domain and an operator.
pub(crate) type Name<'n> = (&'n str, &'n str);

/// The versions of each operator.
pub(crate) type Table = HashMap<Name<'static>, Vec<Schema>>;

/// Reads the files. A line that does not read, which a test rules out, is left out.
pub(crate) fn read(files: &[&'static str]) -> Table {
    let mut table = Table::new();
    for file in files {
        let (mut sets, mut domain) = (HashMap::new(), "");
        for line in file.lines().filter(|line| !line.starts_with('#')) {
            if let Some(set) = line.strip_prefix("set ") {
                sets.extend(set.split_once(' ').and_then(|(number, set)| Some((number, type_set(set)?))));
            } else if let Some(name) = line.strip_prefix("domain ") {
                domain = name;
            } else if let Some((op_type, schema)) = schema(line, &sets) {
                table.entry((domain, op_type)).or_default().push(schema);
            }
        }
    }
    table
}

/// `Add 14= A:T B:T > C:T ; T=2`: a name, a version (with `=` if it only adds types), inputs, outputs and variables.
fn schema(line: &'static str, sets: &HashMap<&str, TypeSet>) -> Option<(&'static str, Schema)> {
    let (signature, variables) = line.split_once(" ;")?;
    let (head, outputs) = signature.split_once(" >")?;
    let mut head = head.split_whitespace();
    let (op_type, version) = (head.next()?, head.next()?);
    let adds_types = version.ends_with('=');
    let since = version.trim_end_matches('=').parse().ok()?;
    let variable = |text: &'static str| {
        let (name, set) = text.split_once('=')?;
        Some(Variable { name, allowed: sets.get(set)?.clone() })
    };
    let variables = variables.split_whitespace().map(variable).collect::<Option<Vec<_>>>()?;
    let inputs = head.map(|text| formal_of(text, &variables)).collect::<Option<_>>()?;
    let outputs = outputs.split_whitespace().map(|text| formal_of(text, &variables)).collect::<Option<_>>()?;
    Some((op_type, Schema { since, adds_types, inputs, outputs, variables }))
}

/// `name:VARIABLE` or `name=TYPE`, the name with a mark of how often it is there.
fn formal_of(text: &'static str, variables: &[Variable]) -> Option<Formal> {
    let at = text.find([':', '='])?;
    let (name, of_type) = (&text[..at], &text[at + 1..]);
    let of_type = if text[at..].starts_with('=') {
        FormalType::Fixed(ValueType::parse(of_type)?)
    } else {
        FormalType::Variable(variables.iter().position(|variable| variable.name == of_type)?)
    };
    const MARKS: [(char, Arity); 3] = [
        ('?', Arity::Optional),
        ('*', Arity::Variadic { homogeneous: true }),
        ('~', Arity::Variadic { homogeneous: false }),
    ];
    let marked = MARKS.iter().find_map(|&(mark, arity)| Some((name.strip_suffix(mark)?, arity)));
    let (name, arity) = marked.unwrap_or((name, Arity::Single));
    Some(Formal { name, arity, of_type })
}

/// `tensor:double,float sequence:float other:map(int64,float)`.
fn type_set(text: &str) -> Option<TypeSet> {
    let mut set = TypeSet::default();
    for part in text.split(' ') {
        let (kind, types) = part.split_once(':')?;
        let elements = match kind {
            "tensor" => &mut set.tensors,
            "sequence" => &mut set.sequences,
            "optional" => &mut set.optionals,
            "optional_sequence" => &mut set.optional_sequences,
            "other" => {
                set.others = types.split(';').map(ValueType::parse).collect::<Option<_>>()?;
                continue;
            }
            _ => return None,
        };
        for name in types.split(',') {
            *elements |= bit(ValueType::parse(name)?.tensor()?);
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Traits;

    #[test]
    fn every_line_reads() {
        let lines = |file: &str| {
            let other = |line: &&str| ["#", "set ", "domain "].iter().all(|start| !line.starts_with(start));
            file.lines().filter(other).count()
        };
        let table = read(&[ONNX, RUNTIME]);
        assert_eq!(table.values().map(Vec::len).sum::<usize>(), lines(ONNX) + lines(RUNTIME));
        assert!(table.values().all(|versions| versions.is_sorted_by_key(|schema| schema.since)));
    }

    /// Every operator of ONNX has a line in the table of operators, and no line speaks of one, or of an input, that there
    /// is not.
    #[test]
    fn the_table_of_operators_agrees() {
        let named: HashMap<(&str, &str), &Traits> =
            crate::operators::all().map(|(domain, name, traits)| ((domain, name), traits)).collect();
        for (&(domain, name), traits) in &named {
            let versions = Schema::versions(domain, name);
            assert!(!versions.is_empty(), "{domain} {name}");
            for &(input, _) in &traits.inputs {
                let has_input = |schema: &Schema| schema.inputs.iter().any(|formal| formal.name == input);
                assert!(versions.iter().any(has_input), "{name}: {input}");
            }
        }
        let onnx = read(&[ONNX]);
        let missing: Vec<_> = onnx.keys().filter(|name| name.0 == "ai.onnx" && !named.contains_key(*name)).collect();
        assert!(missing.is_empty(), "without a line in operators.txt: {missing:?}");
    }

    /// Every operator that takes floats says what it computes inside, and what adds up squares or exponentials is
    /// sensitive, or made for it by hardware.
    #[test]
    fn what_operators_compute_inside_is_known() {
        use crate::operators::{Flag, Inside};
        let onnx = read(&[ONNX]);
        let takes_floats = |schema: &Schema| {
            schema.inputs.iter().any(|formal| match &formal.of_type {
                FormalType::Fixed(of_type) => of_type.tensor().is_some_and(DataType::is_float),
                FormalType::Variable(variable) => schema.variables[*variable].allowed.tensors(DataType::Float),
            })
        };
        for (&(domain, name), versions) in &read(&[ONNX, RUNTIME]) {
            let traits = Traits::of(domain, name);
            let is_listed = crate::operators::all().any(|(of, listed, _)| (of, listed) == (domain, name));
            if (is_listed || domain == "ai.onnx" && onnx.contains_key(&(domain, name)))
                && versions.iter().any(takes_floats)
            {
                assert!(traits.inside.is_some(), "{name}: without `inside=` in operators.txt");
            }
            let is_safe = traits.sensitive.is_some() || traits.is(Flag::Fast) || traits.is(Flag::Float);
            if domain == "ai.onnx" && matches!(traits.inside, Some(Inside::Squares | Inside::Exponentials)) {
                assert!(is_safe, "{name}: adds up squares or exponentials and is not sensitive");
            }
        }
    }

    #[test]
    fn the_first_version_that_gives_a_type() {
        let first = |op_type, data_type| Schema::first_giving(op_type, data_type);
        for (data_type, constant, identity) in [
            (DataType::Float, Some(1), Some(1)),
            (DataType::Int64, Some(9), Some(1)),
            (DataType::BFloat16, Some(13), Some(13)),
            (DataType::Float8E4M3FN, Some(19), Some(19)),
            (DataType::Int4, Some(21), Some(21)),
            (DataType::Float6E2M3, None, None),
        ] {
            assert_eq!(
                (first("Constant", data_type), first("Identity", data_type)),
                (constant, identity),
                "{data_type}"
            );
        }
    }

    #[test]
    fn what_versions_change() {
        let versions = |op_type| -> Vec<_> {
            Schema::versions("", op_type).iter().map(|schema| (schema.since, schema.adds_types)).collect()
        };
        assert_eq!(versions("Softmax"), [(1, false), (11, false), (13, false)]);
        assert_eq!(versions("Acos"), [(7, false), (22, true)]);
    }

    #[test]
    fn versions_by_opset() {
        let since = |opset| Schema::of("", "QuantizeLinear", opset).map(|schema| schema.since);
        assert_eq!([9, 10, 18, 19, 28].map(since), [None, Some(10), Some(13), Some(19), Some(28)]);
        assert!(Schema::of("ai.onnx", "Add", 13).is_some() && Schema::of("other", "Add", 13).is_none());
        assert!(Schema::of("com.microsoft", "FusedMatMul", 1).is_some());
        assert!(Schema::of("ai.onnx.ml", "TreeEnsemble", 5).is_some());
    }

    #[test]
    fn constraints() {
        let add = Schema::of("", "Add", 14).expect("a schema");
        let allowed = &add.variables[0].allowed;
        assert!(allowed.tensors(DataType::BFloat16) && !allowed.tensors(DataType::Bool));
        assert!(!Schema::of("", "Add", 7).expect("a schema").variables[0].allowed.tensors(DataType::BFloat16));
        let concat = Schema::of("", "Concat", 13).expect("a schema");
        assert_eq!(concat.input(7).expect("variadic").arity, Arity::Variadic { homogeneous: true });
        assert!(add.input(2).is_none() && concat.output(1).is_none());
        let quantize = Schema::of("", "QuantizeLinear", 10).expect("a schema");
        assert_eq!(quantize.inputs[1].of_type, FormalType::Fixed(DataType::Float.into()));
        assert_eq!(quantize.inputs[2].arity, Arity::Optional);
        let identity = Schema::of("", "Identity", 16).expect("a schema");
        let types = ["float", "sequence(float)", "optional(float)", "optional(sequence(float))", "map(int64,float)"];
        let allowed =
            types.map(|text| identity.variables[0].allowed.contains(&ValueType::parse(text).expect("a type")));
        assert_eq!(allowed, [true, true, true, true, false]);
        let zip_map = Schema::of("ai.onnx.ml", "ZipMap", 1).expect("a schema");
        assert!(
            zip_map.variables[0].allowed.contains(&ValueType::parse("sequence(map(int64,float))").expect("a type"))
        );
    }
}
