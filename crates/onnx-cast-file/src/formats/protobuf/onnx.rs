//! The field numbers of a tensor (onnx.proto).

/// `StringStringEntryProto`.
#[expect(missing_docs, reason = "the names are those of onnx.proto")]
pub mod entry {
    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
}

/// `TensorProto`.
#[expect(missing_docs, reason = "the names are those of onnx.proto")]
pub mod tensor {
    pub const DIMS: u32 = 1;
    pub const DATA_TYPE: u32 = 2;
    pub const SEGMENT: u32 = 3;
    pub const FLOAT_DATA: u32 = 4;
    pub const INT32_DATA: u32 = 5;
    pub const STRING_DATA: u32 = 6;
    pub const INT64_DATA: u32 = 7;
    pub const NAME: u32 = 8;
    pub const RAW_DATA: u32 = 9;
    pub const DOUBLE_DATA: u32 = 10;
    pub const UINT64_DATA: u32 = 11;
    pub const EXTERNAL_DATA: u32 = 13;
    pub const DATA_LOCATION: u32 = 14;
}
