//! The field numbers of a tensor (onnx.proto).

/// `StringStringEntryProto`.
pub mod entry {
    /// Field `key`.
    pub const KEY: u32 = 1;
    /// Field `value`.
    pub const VALUE: u32 = 2;
}

/// `TensorProto`.
pub mod tensor {
    /// Field `dims`.
    pub const DIMS: u32 = 1;
    /// Field `data_type`.
    pub const DATA_TYPE: u32 = 2;
    /// Field `segment`.
    pub const SEGMENT: u32 = 3;
    /// Field `float_data`.
    pub const FLOAT_DATA: u32 = 4;
    /// Field `int32_data`.
    pub const INT32_DATA: u32 = 5;
    /// Field `string_data`.
    pub const STRING_DATA: u32 = 6;
    /// Field `int64_data`.
    pub const INT64_DATA: u32 = 7;
    /// Field `name`.
    pub const NAME: u32 = 8;
    /// Field `raw_data`.
    pub const RAW_DATA: u32 = 9;
    /// Field `double_data`.
    pub const DOUBLE_DATA: u32 = 10;
    /// Field `uint64_data`.
    pub const UINT64_DATA: u32 = 11;
    /// Field `external_data`.
    pub const EXTERNAL_DATA: u32 = 13;
    /// Field `data_location`.
    pub const DATA_LOCATION: u32 = 14;
}
