//! The part of onnxruntime's C interface that this crate uses, in its version 17, which onnxruntime 1.17 and later
//! provide. Functions are entries of one table, and keep their positions in later versions. A test compares this with
//! the crate `ort-sys`.

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that is asked for.
pub(crate) const API_VERSION: u32 = 17;

/// Types of which only pointers are seen.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// Options of a session.
    SessionOptions
    /// Why a call failed.
    Status
    /// A domain of operators.
    Domain
    /// What a kernel is made from.
    KernelInfo
    /// What a kernel runs on.
    KernelContext
    /// A tensor.
    Value
    /// The type and the shape of a tensor.
    TensorInfo
    /// What the shape of an output is told from.
    ShapeContext
    /// An attribute of a node.
    OpAttribute
}
pub(crate) use opaque;

/// Null, or why a call failed.
pub(crate) type StatusPointer = *mut Status;

/// Where the interface is found.
#[repr(C)]
pub(crate) struct ApiBase {
    /// The table of a version, or null if it lacks the version.
    pub(crate) get_api: unsafe extern "system" fn(u32) -> *const Table,
    /// onnxruntime's version, such as "1.31.1".
    pub(crate) get_version: unsafe extern "system" fn() -> *const c_char,
}

/// The table of functions, of which there are more than the last one that is used.
pub(crate) type Table = [*const c_void; 273];

/// An operator.
#[repr(C)]
#[allow(non_snake_case, reason = "the names are onnxruntime's")]
pub(crate) struct CustomOp {
    pub(crate) version: u32,
    pub(crate) CreateKernel: Option<unsafe extern "system" fn()>,
    pub(crate) GetName: unsafe extern "system" fn(*const CustomOp) -> *const c_char,
    pub(crate) GetExecutionProviderType: unsafe extern "system" fn(*const CustomOp) -> *const c_char,
    pub(crate) GetInputType: unsafe extern "system" fn(*const CustomOp, usize) -> c_int,
    pub(crate) GetInputTypeCount: unsafe extern "system" fn(*const CustomOp) -> usize,
    pub(crate) GetOutputType: unsafe extern "system" fn(*const CustomOp, usize) -> c_int,
    pub(crate) GetOutputTypeCount: unsafe extern "system" fn(*const CustomOp) -> usize,
    pub(crate) KernelCompute: Option<unsafe extern "system" fn()>,
    pub(crate) KernelDestroy: unsafe extern "system" fn(*mut c_void),
    pub(crate) GetInputCharacteristic: unsafe extern "system" fn(*const CustomOp, usize) -> c_int,
    pub(crate) GetOutputCharacteristic: unsafe extern "system" fn(*const CustomOp, usize) -> c_int,
    pub(crate) GetInputMemoryType: unsafe extern "system" fn(*const CustomOp, usize) -> c_int,
    pub(crate) GetVariadicInputMinArity: Option<unsafe extern "system" fn()>,
    pub(crate) GetVariadicInputHomogeneity: Option<unsafe extern "system" fn()>,
    pub(crate) GetVariadicOutputMinArity: Option<unsafe extern "system" fn()>,
    pub(crate) GetVariadicOutputHomogeneity: Option<unsafe extern "system" fn()>,
    pub(crate) CreateKernelV2:
        unsafe extern "system" fn(*const CustomOp, *const Table, *const KernelInfo, *mut *mut c_void) -> StatusPointer,
    pub(crate) KernelComputeV2: unsafe extern "system" fn(*mut c_void, *mut KernelContext) -> StatusPointer,
    pub(crate) InferOutputShapeFn: unsafe extern "system" fn(*const CustomOp, *mut ShapeContext) -> StatusPointer,
    pub(crate) GetStartVersion: unsafe extern "system" fn(*const CustomOp) -> c_int,
    pub(crate) GetEndVersion: unsafe extern "system" fn(*const CustomOp) -> c_int,
}

/// Values of onnxruntime's enumerations.
pub(crate) mod value {
    use std::ffi::c_int;

    /// OrtErrorCode: whatever fails at run time.
    pub(crate) const FAIL: c_int = 1;
    /// OrtErrorCode: a wrong argument, here a node that is wrong.
    pub(crate) const INVALID_ARGUMENT: c_int = 2;
    /// OrtCustomOpInputOutputCharacteristic: an input or output that must be there.
    pub(crate) const REQUIRED: c_int = 0;
    /// OrtCustomOpInputOutputCharacteristic: an input that may be missing.
    pub(crate) const OPTIONAL: c_int = 1;
    /// OrtMemType: where the execution provider has its memory.
    pub(crate) const DEFAULT_MEMORY: c_int = 0;
    /// ONNXTensorElementDataType: any type.
    pub(crate) const ANY_TYPE: c_int = 0;
    /// OrtOpAttrType: INT.
    pub(crate) const INT: c_int = 1;
}

/// Passes the used entries of the table to the macro `$then`, after `$first`, each with its position, its name and its
/// parameters.
macro_rules! with_entries {
    ($then:ident $first:ty) => {
        $then! {
            $first;
            0 CreateStatus(code: c_int, text: *const c_char) -> StatusPointer;
            2 GetErrorMessage(status: *const Status) -> *const c_char;
            26 CreateCustomOpDomain(name: *const c_char, domain: *mut *mut Domain) -> StatusPointer;
            27 CustomOpDomain_Add(domain: *mut Domain, op: *const CustomOp) -> StatusPointer;
            28 AddCustomOpDomain(options: *mut SessionOptions, domain: *mut Domain) -> StatusPointer;
            51 GetTensorMutableData(value: *const Value, data: *mut *mut c_void) -> StatusPointer;
            53 GetStringTensorDataLength(value: *const Value, bytes: *mut usize) -> StatusPointer;
            54 GetStringTensorContent(value: *const Value, bytes: *mut c_void, room: usize, offsets: *mut usize, count: usize) -> StatusPointer;
            57 CreateTensorTypeAndShapeInfo(info: *mut *mut TensorInfo) -> StatusPointer;
            58 SetTensorElementType(info: *mut TensorInfo, data_type: c_int) -> StatusPointer;
            59 SetDimensions(info: *mut TensorInfo, dims: *const i64, count: usize) -> StatusPointer;
            60 GetTensorElementType(info: *const TensorInfo, data_type: *mut c_int) -> StatusPointer;
            61 GetDimensionsCount(info: *const TensorInfo, count: *mut usize) -> StatusPointer;
            62 GetDimensions(info: *const TensorInfo, dims: *mut i64, count: usize) -> StatusPointer;
            63 GetSymbolicDimensions(info: *const TensorInfo, dims: *mut *const c_char, count: usize) -> StatusPointer;
            65 GetTensorTypeAndShape(value: *const Value, info: *mut *mut TensorInfo) -> StatusPointer;
            86 KernelInfoGetAttribute_int64(info: *const KernelInfo, name: *const c_char, value: *mut i64) -> StatusPointer;
            87 KernelInfoGetAttribute_string(info: *const KernelInfo, name: *const c_char, value: *mut c_char, size: *mut usize) -> StatusPointer;
            90 KernelContext_GetInput(context: *const KernelContext, index: usize, value: *mut *const Value) -> StatusPointer;
            91 KernelContext_GetOutput(context: *mut KernelContext, index: usize, dims: *const i64, count: usize, value: *mut *mut Value) -> StatusPointer;
            93 ReleaseStatus(status: StatusPointer) -> ();
            99 ReleaseTensorTypeAndShapeInfo(info: *mut TensorInfo) -> ();
            101 ReleaseCustomOpDomain(domain: *mut Domain) -> ();
            252 GetResizedStringTensorElementBuffer(value: *mut Value, index: usize, bytes: usize, room: *mut *mut c_char) -> StatusPointer;
            268 ShapeInferContext_GetInputTypeShape(context: *const ShapeContext, index: usize, info: *mut *mut TensorInfo) -> StatusPointer;
            269 ShapeInferContext_GetAttribute(context: *const ShapeContext, name: *const c_char, attribute: *mut *const OpAttribute) -> StatusPointer;
            270 ShapeInferContext_SetOutputTypeShape(context: *const ShapeContext, index: usize, info: *const TensorInfo) -> StatusPointer;
            271 SetSymbolicDimensions(info: *mut TensorInfo, dims: *mut *const c_char, count: usize) -> StatusPointer;
            272 ReadOpAttr(attribute: *const OpAttribute, kind: c_int, data: *mut c_void, room: usize, size: *mut usize) -> StatusPointer;
        }
    };
}
pub(crate) use with_entries;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// Each entry stands where `ort-sys` has it.
    macro_rules! places {
        ($theirs:ty; $($index:literal $name:ident($($parameter:ident: $kind:ty),*) -> $result:ty;)*) => {
            [$((stringify!($name), $index, offset_of!($theirs, $name) / size_of::<usize>())),*]
        };
    }

    /// Each field stands where `ort-sys` has it.
    macro_rules! fields {
        ($($name:ident)*) => {
            [$((stringify!($name), offset_of!(CustomOp, $name), offset_of!(ort_sys::OrtCustomOp, $name))),*]
        };
    }

    #[test]
    fn the_table_is_that_of_ort_sys() {
        for (name, ours, theirs) in with_entries!(places ort_sys::OrtApi) {
            assert_eq!(ours, theirs, "{name}");
            assert!(ours < size_of::<Table>() / size_of::<usize>(), "{name}");
        }
    }

    #[test]
    fn the_operator_is_that_of_ort_sys() {
        let fields = fields! {
            version CreateKernel GetName GetExecutionProviderType GetInputType GetInputTypeCount GetOutputType
            GetOutputTypeCount KernelCompute KernelDestroy GetInputCharacteristic GetOutputCharacteristic
            GetInputMemoryType GetVariadicInputMinArity GetVariadicInputHomogeneity GetVariadicOutputMinArity
            GetVariadicOutputHomogeneity CreateKernelV2 KernelComputeV2 InferOutputShapeFn GetStartVersion GetEndVersion
        };
        for (name, ours, theirs) in fields {
            assert_eq!(ours, theirs, "{name}");
        }
        // Later versions of the interface have more fields, which this one is not asked for.
        assert_eq!(size_of::<CustomOp>(), offset_of!(ort_sys::OrtCustomOp, GetMayInplace));
    }

    #[test]
    fn the_values_are_those_of_ort_sys() {
        use ort_sys::*;
        assert_eq!(value::FAIL, OrtErrorCode::ORT_FAIL as c_int);
        assert_eq!(value::INVALID_ARGUMENT, OrtErrorCode::ORT_INVALID_ARGUMENT as c_int);
        assert_eq!(value::REQUIRED, OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED as c_int);
        assert_eq!(value::OPTIONAL, OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_OPTIONAL as c_int);
        assert_eq!(value::DEFAULT_MEMORY, OrtMemType::OrtMemTypeDefault as c_int);
        assert_eq!(value::ANY_TYPE, ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED as c_int);
        assert_eq!(value::INT, OrtOpAttrType::ORT_OP_ATTR_INT as c_int);
    }
}
