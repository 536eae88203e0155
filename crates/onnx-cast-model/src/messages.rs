//! The messages of a model (onnx.proto): the numbers of the fields that are read here, and what an outline of a model
//! leaves in its file.

use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::outline::Schema;

/// `ModelProto`.
pub(crate) mod model {
    pub(crate) const IR_VERSION: u32 = 1;
    pub(crate) const GRAPH: u32 = 7;
    pub(crate) const OPSET_IMPORT: u32 = 8;
    pub(crate) const METADATA_PROPS: u32 = 14;
    pub(crate) const TRAINING_INFO: u32 = 20;
    pub(crate) const FUNCTIONS: u32 = 25;
}

/// `OperatorSetIdProto`.
pub(crate) mod opset {
    pub(crate) const DOMAIN: u32 = 1;
    pub(crate) const VERSION: u32 = 2;
}

/// `GraphProto`.
pub(crate) mod graph {
    pub(crate) const NODE: u32 = 1;
    pub(crate) const INITIALIZER: u32 = 5;
    pub(crate) const INPUT: u32 = 11;
    pub(crate) const OUTPUT: u32 = 12;
    pub(crate) const VALUE_INFO: u32 = 13;
    pub(crate) const SPARSE_INITIALIZER: u32 = 15;
}

/// `FunctionProto`.
pub(crate) mod function {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const INPUT: u32 = 4;
    pub(crate) const OUTPUT: u32 = 5;
    pub(crate) const NODE: u32 = 7;
    pub(crate) const OPSET_IMPORT: u32 = 9;
    pub(crate) const DOMAIN: u32 = 10;
    pub(crate) const ATTRIBUTE_PROTO: u32 = 11;
    pub(crate) const VALUE_INFO: u32 = 12;
    pub(crate) const OVERLOAD: u32 = 13;
}

/// `SparseTensorProto`.
pub(crate) mod sparse {
    pub(crate) const VALUES: u32 = 1;
    pub(crate) const INDICES: u32 = 2;
}

/// `ValueInfoProto`, and what its type holds.
pub(crate) mod value_info {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const TYPE: u32 = 2;
    /// `TypeProto.tensor_type`.
    pub(crate) const TENSOR_TYPE: u32 = 1;
    /// `TypeProto.Tensor.elem_type`.
    pub(crate) const ELEM_TYPE: u32 = 1;
    /// `TypeProto.Tensor.shape`.
    pub(crate) const SHAPE: u32 = 2;
    /// `TensorShapeProto.dim`.
    pub(crate) const DIM: u32 = 1;
    /// `TensorShapeProto.Dimension.dim_value`.
    pub(crate) const DIM_VALUE: u32 = 1;
    /// `TensorShapeProto.Dimension.dim_param`.
    pub(crate) const DIM_PARAM: u32 = 2;
}

/// `TypeProto`: its kinds, and what they hold.
pub(crate) mod of_type {
    pub(crate) const TENSOR: u32 = 1;
    pub(crate) const SEQUENCE: u32 = 4;
    pub(crate) const MAP: u32 = 5;
    pub(crate) const SPARSE_TENSOR: u32 = 8;
    pub(crate) const OPTIONAL: u32 = 9;
    /// `elem_type`: a number in tensors, a TypeProto in sequences and optionals.
    pub(crate) const ELEM_TYPE: u32 = 1;
    pub(crate) const KEY_TYPE: u32 = 1;
    pub(crate) const VALUE_TYPE: u32 = 2;
}

/// `NodeProto`.
pub(crate) mod node {
    pub(crate) const INPUT: u32 = 1;
    pub(crate) const OUTPUT: u32 = 2;
    pub(crate) const NAME: u32 = 3;
    pub(crate) const OP_TYPE: u32 = 4;
    pub(crate) const ATTRIBUTE: u32 = 5;
    pub(crate) const DOMAIN: u32 = 7;
    pub(crate) const OVERLOAD: u32 = 8;
}

/// `AttributeProto`.
pub(crate) mod attribute {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const F: u32 = 2;
    pub(crate) const I: u32 = 3;
    pub(crate) const S: u32 = 4;
    pub(crate) const T: u32 = 5;
    pub(crate) const G: u32 = 6;
    pub(crate) const FLOATS: u32 = 7;
    pub(crate) const INTS: u32 = 8;
    pub(crate) const STRINGS: u32 = 9;
    pub(crate) const TENSORS: u32 = 10;
    pub(crate) const GRAPHS: u32 = 11;
    pub(crate) const TP: u32 = 14;
    pub(crate) const TYPE: u32 = 20;
    pub(crate) const REF_ATTR_NAME: u32 = 21;
    pub(crate) const SPARSE_TENSOR: u32 = 22;
    pub(crate) const SPARSE_TENSORS: u32 = 23;

    /// `AttributeProto.AttributeType`.
    pub(crate) mod kind {
        pub(crate) const UNDEFINED: u64 = 0;
        pub(crate) const FLOAT: u64 = 1;
        pub(crate) const INT: u64 = 2;
        pub(crate) const STRING: u64 = 3;
        pub(crate) const TENSOR: u64 = 4;
        pub(crate) const FLOATS: u64 = 6;
        pub(crate) const INTS: u64 = 7;
        pub(crate) const STRINGS: u64 = 8;
    }
}

/// A model, of whose tensors the elements stay in the file.
pub(crate) static MODEL: Schema = Schema {
    messages: &[
        (model::GRAPH, &GRAPH),
        (model::FUNCTIONS, &FUNCTION),
        (model::OPSET_IMPORT, &PLAIN),
        (model::METADATA_PROPS, &PLAIN),
    ],
    left: &[model::TRAINING_INFO],
};

static GRAPH: Schema = Schema {
    messages: &[
        (graph::NODE, &NODE),
        (graph::INITIALIZER, &TENSOR),
        (graph::SPARSE_INITIALIZER, &SPARSE),
        (graph::INPUT, &PLAIN),
        (graph::OUTPUT, &PLAIN),
        (graph::VALUE_INFO, &PLAIN),
    ],
    left: &[],
};

static FUNCTION: Schema = Schema {
    messages: &[
        (function::NODE, &NODE),
        (function::ATTRIBUTE_PROTO, &ATTRIBUTE),
        (function::OPSET_IMPORT, &PLAIN),
        (function::VALUE_INFO, &PLAIN),
    ],
    left: &[],
};

static NODE: Schema = Schema { messages: &[(node::ATTRIBUTE, &ATTRIBUTE)], left: &[] };

static ATTRIBUTE: Schema = Schema {
    messages: &[
        (attribute::T, &TENSOR),
        (attribute::TENSORS, &TENSOR),
        (attribute::G, &GRAPH),
        (attribute::GRAPHS, &GRAPH),
        (attribute::SPARSE_TENSOR, &SPARSE),
        (attribute::SPARSE_TENSORS, &SPARSE),
    ],
    left: &[],
};

static SPARSE: Schema = Schema { messages: &[(sparse::VALUES, &TENSOR), (sparse::INDICES, &TENSOR)], left: &[] };

static TENSOR: Schema = Schema {
    messages: &[],
    left: &[
        tensor::RAW_DATA,
        tensor::FLOAT_DATA,
        tensor::INT32_DATA,
        tensor::INT64_DATA,
        tensor::DOUBLE_DATA,
        tensor::UINT64_DATA,
    ],
};

/// A message that is read whole.
static PLAIN: Schema = Schema { messages: &[], left: &[] };
