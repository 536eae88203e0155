//! The part of onnxruntime's C interface that an execution provider uses beyond that of custom operators, in version
//! 23, which onnxruntime 1.23 and later provide: graphs and nodes, the table of execution providers, and the structs
//! whose functions onnxruntime calls. Tests compare the entries with the crate `ort-sys`, which does not declare the
//! table of execution providers and the structs; those follow `onnxruntime_ep_c_api.h`.

use crate::abi::{KernelContext, SessionOptions, StatusPointer, opaque};
use std::ffi::{c_char, c_void};

/// The version of the interface that is asked for, and that every struct names.
pub(crate) const PROVIDER_VERSION: u32 = 23;

opaque! {
    /// A graph of nodes: that of a model, of a branch, or of a group of nodes to be compiled.
    Graph
    /// A node.
    GraphNode
    /// A value: its name, and its type as far as that is known.
    ValueInfo
    /// The type of a value.
    TypeInfo
    /// A processor.
    HardwareDevice
    /// A processor with the execution provider that uses it.
    EpDevice
    /// Where the claimed nodes are named.
    SupportInfo
    /// What the state of a compiled group is made from.
    ComputeContext
    /// Names with values.
    KeyValuePairs
    /// onnxruntime's log.
    Logger
    /// What the sessions of a process share.
    Environment
    /// A model that is loaded.
    Session
}

/// The table of version 23, up to the last entry that is used.
pub(crate) type GraphTable = [*const c_void; 380];

/// The table of functions for execution providers, up to the last entry that is used.
pub(crate) type EpTable = [*const c_void; 3];

/// A function of the `ParallelFor` of a session's threads: the data of the caller and a number.
pub(crate) type Part = unsafe extern "system" fn(*mut c_void, usize);

/// What makes execution providers.
#[repr(C)]
#[allow(non_snake_case, reason = "the names are onnxruntime's")]
pub(crate) struct EpFactory {
    pub(crate) version: u32,
    pub(crate) GetName: unsafe extern "system" fn(*const EpFactory) -> *const c_char,
    pub(crate) GetVendor: unsafe extern "system" fn(*const EpFactory) -> *const c_char,
    pub(crate) GetSupportedDevices: unsafe extern "system" fn(
        *mut EpFactory,
        *const *const HardwareDevice,
        usize,
        *mut *mut EpDevice,
        usize,
        *mut usize,
    ) -> StatusPointer,
    pub(crate) CreateEp: unsafe extern "system" fn(
        *mut EpFactory,
        *const *const HardwareDevice,
        *const *const KeyValuePairs,
        usize,
        *const SessionOptions,
        *const Logger,
        *mut *mut Ep,
    ) -> StatusPointer,
    pub(crate) ReleaseEp: unsafe extern "system" fn(*mut EpFactory, *mut Ep),
    pub(crate) GetVendorId: unsafe extern "system" fn(*const EpFactory) -> u32,
    pub(crate) GetVersion: unsafe extern "system" fn(*const EpFactory) -> *const c_char,
    pub(crate) ValidateCompiledModelCompatibilityInfo: Option<unsafe extern "system" fn()>,
    pub(crate) CreateAllocator: unsafe extern "system" fn(
        *mut EpFactory,
        *const c_void,
        *const KeyValuePairs,
        *mut *mut c_void,
    ) -> StatusPointer,
    pub(crate) ReleaseAllocator: unsafe extern "system" fn(*mut EpFactory, *mut c_void),
    pub(crate) CreateDataTransfer: unsafe extern "system" fn(*mut EpFactory, *mut *mut c_void) -> StatusPointer,
    pub(crate) IsStreamAware: unsafe extern "system" fn(*const EpFactory) -> bool,
    pub(crate) CreateSyncStreamForDevice: unsafe extern "system" fn(
        *mut EpFactory,
        *const c_void,
        *const KeyValuePairs,
        *mut *mut c_void,
    ) -> StatusPointer,
}

/// The execution provider of a session. What is null has a default.
#[repr(C)]
#[allow(non_snake_case, reason = "the names are onnxruntime's")]
pub(crate) struct Ep {
    pub(crate) version: u32,
    pub(crate) GetName: unsafe extern "system" fn(*const Ep) -> *const c_char,
    pub(crate) GetCapability: unsafe extern "system" fn(*mut Ep, *const Graph, *mut SupportInfo) -> StatusPointer,
    pub(crate) Compile: unsafe extern "system" fn(
        *mut Ep,
        *mut *const Graph,
        *mut *const GraphNode,
        usize,
        *mut *mut ComputeInfo,
        *mut *mut GraphNode,
    ) -> StatusPointer,
    pub(crate) ReleaseNodeComputeInfos: unsafe extern "system" fn(*mut Ep, *mut *mut ComputeInfo, usize),
    pub(crate) GetPreferredDataLayout: Option<unsafe extern "system" fn()>,
    pub(crate) ShouldConvertDataLayoutForOp: Option<unsafe extern "system" fn()>,
    pub(crate) SetDynamicOptions: Option<unsafe extern "system" fn()>,
    pub(crate) OnRunStart: Option<unsafe extern "system" fn()>,
    pub(crate) OnRunEnd: Option<unsafe extern "system" fn()>,
    pub(crate) CreateAllocator: Option<unsafe extern "system" fn()>,
    pub(crate) CreateSyncStreamForDevice: Option<unsafe extern "system" fn()>,
    pub(crate) GetCompiledModelCompatibilityInfo: Option<unsafe extern "system" fn()>,
}

/// A compiled group of nodes.
#[repr(C)]
#[allow(non_snake_case, reason = "the names are onnxruntime's")]
pub(crate) struct ComputeInfo {
    pub(crate) version: u32,
    pub(crate) CreateState:
        unsafe extern "system" fn(*mut ComputeInfo, *mut ComputeContext, *mut *mut c_void) -> StatusPointer,
    pub(crate) Compute: unsafe extern "system" fn(*mut ComputeInfo, *mut c_void, *mut KernelContext) -> StatusPointer,
    pub(crate) ReleaseState: unsafe extern "system" fn(*mut ComputeInfo, *mut c_void),
}

/// Values of onnxruntime's enumerations.
pub(crate) mod value {
    use std::ffi::c_int;

    /// OrtHardwareDeviceType: the processor.
    pub(crate) const CPU: c_int = 0;
    /// OrtLoggingLevel: INFO, WARNING and FATAL.
    pub(crate) const INFO: c_int = 1;
    pub(crate) const WARNING: c_int = 2;
    pub(crate) const FATAL: c_int = 4;
    /// OrtOpAttrType: INT.
    pub(crate) const INT: c_int = 1;
    /// OrtOpAttrType: STRING.
    pub(crate) const STRING: c_int = 5;
}

/// Passes the used entries of the table of version 23 to the macro `$then`, as `crate::abi::with_entries` does.
macro_rules! with_graph_entries {
    ($then:ident $first:ty) => {
        $then! {
            $first;
            3 CreateEnv(level: c_int, name: *const c_char, made: *mut *mut Environment) -> StatusPointer;
            8 CreateSessionFromArray(environment: *const Environment, model: *const c_void, len: usize, options: *const SessionOptions, made: *mut *mut Session) -> StatusPointer;
            10 CreateSessionOptions(made: *mut *mut SessionOptions) -> StatusPointer;
            22 SetSessionLogSeverityLevel(options: *mut SessionOptions, level: c_int) -> StatusPointer;
            23 SetSessionGraphOptimizationLevel(options: *mut SessionOptions, level: c_int) -> StatusPointer;
            24 SetIntraOpNumThreads(options: *mut SessionOptions, threads: c_int) -> StatusPointer;
            55 CastTypeInfoToTensorInfo(info: *const TypeInfo, tensor: *mut *const TensorInfo) -> StatusPointer;
            92 ReleaseEnv(environment: *mut Environment) -> ();
            95 ReleaseSession(session: *mut Session) -> ();
            100 ReleaseSessionOptions(options: *mut SessionOptions) -> ();
            247 Logger_LogMessage(logger: *const Logger, level: c_int, text: *const c_char, file: *const c_void, line: c_int, function: *const c_char) -> StatusPointer;
            272 ReadOpAttr(attribute: *const OpAttribute, kind: c_int, data: *mut c_void, room: usize, size: *mut usize) -> StatusPointer;
            274 KernelContext_ParallelFor(context: *const KernelContext, part: Part, parts: usize, batches: usize, data: *mut c_void) -> StatusPointer;
            289 GetValueInfoName(value: *const ValueInfo, name: *mut *const c_char) -> StatusPointer;
            290 GetValueInfoTypeInfo(value: *const ValueInfo, info: *mut *const TypeInfo) -> StatusPointer;
            298 GetKeyValuePairs(pairs: *const KeyValuePairs, keys: *mut *const *const c_char, values: *mut *const *const c_char, count: *mut usize) -> ();
            300 ReleaseKeyValuePairs(pairs: *mut KeyValuePairs) -> ();
            307 HardwareDevice_Type(device: *const HardwareDevice) -> c_int;
            317 GetEpApi() -> *const EpTable;
            318 GetTensorSizeInBytes(value: *const Value, size: *mut usize) -> StatusPointer;
            344 Graph_GetNumNodes(graph: *const Graph, count: *mut usize) -> StatusPointer;
            345 Graph_GetNodes(graph: *const Graph, nodes: *mut *const GraphNode, count: usize) -> StatusPointer;
            350 Node_GetOperatorType(node: *const GraphNode, operator: *mut *const c_char) -> StatusPointer;
            351 Node_GetDomain(node: *const GraphNode, domain: *mut *const c_char) -> StatusPointer;
            352 Node_GetSinceVersion(node: *const GraphNode, version: *mut c_int) -> StatusPointer;
            353 Node_GetNumInputs(node: *const GraphNode, count: *mut usize) -> StatusPointer;
            354 Node_GetInputs(node: *const GraphNode, values: *mut *const ValueInfo, count: usize) -> StatusPointer;
            355 Node_GetNumOutputs(node: *const GraphNode, count: *mut usize) -> StatusPointer;
            356 Node_GetOutputs(node: *const GraphNode, values: *mut *const ValueInfo, count: usize) -> StatusPointer;
            359 Node_GetNumAttributes(node: *const GraphNode, count: *mut usize) -> StatusPointer;
            360 Node_GetAttributes(node: *const GraphNode, attributes: *mut *const OpAttribute, count: usize) -> StatusPointer;
            363 OpAttr_GetType(attribute: *const OpAttribute, kind: *mut c_int) -> StatusPointer;
            364 OpAttr_GetName(attribute: *const OpAttribute, name: *mut *const c_char) -> StatusPointer;
            379 GetSessionOptionsConfigEntries(options: *const SessionOptions, entries: *mut *mut KeyValuePairs) -> StatusPointer;
        }
    };
}
pub(crate) use with_graph_entries;

/// Passes the used entries of the table of execution providers to the macro `$then`.
macro_rules! with_ep_entries {
    ($then:ident $first:ty) => {
        $then! {
            $first;
            0 CreateEpDevice(factory: *mut EpFactory, device: *const HardwareDevice, metadata: *const KeyValuePairs, options: *const KeyValuePairs, made: *mut *mut EpDevice) -> StatusPointer;
            2 EpGraphSupportInfo_AddNodesToFuse(info: *mut SupportInfo, nodes: *const *const GraphNode, count: usize, options: *const c_void) -> StatusPointer;
        }
    };
}
pub(crate) use with_ep_entries;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    macro_rules! places {
        ($theirs:ty; $($index:literal $name:ident($($parameter:ident: $kind:ty),*) -> $result:ty;)*) => {
            [$((stringify!($name), $index, offset_of!($theirs, $name) / size_of::<usize>())),*]
        };
    }

    #[test]
    fn the_table_is_that_of_ort_sys() {
        for (name, ours, theirs) in with_graph_entries!(places ort_sys::OrtApi) {
            assert_eq!(ours, theirs, "{name}");
            assert!(ours < size_of::<GraphTable>() / size_of::<usize>(), "{name}");
        }
    }

    #[test]
    fn the_structs_have_a_version_and_functions_alone() {
        let functions = |size: usize| size / size_of::<usize>() - 1;
        assert_eq!(functions(size_of::<EpFactory>()), 13);
        assert_eq!(functions(size_of::<Ep>()), 12);
        assert_eq!(functions(size_of::<ComputeInfo>()), 3);
    }

    #[test]
    fn the_values_are_those_of_ort_sys() {
        use ort_sys::*;
        assert_eq!(value::CPU, OrtHardwareDeviceType::OrtHardwareDeviceType_CPU as c_int);
        let levels = [
            OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO,
            OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING,
            OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL,
        ];
        assert_eq!([value::INFO, value::WARNING, value::FATAL], levels.map(|level| level as c_int));
        assert_eq!(value::INT, OrtOpAttrType::ORT_OP_ATTR_INT as c_int);
        assert_eq!(value::STRING, OrtOpAttrType::ORT_OP_ATTR_STRING as c_int);
    }
}
