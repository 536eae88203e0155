//! The onnxruntime that a provider works for: its tables of functions, and nodes and options read through them.

use super::abi::{
    Environment, EpDevice, EpFactory, EpTable, Graph, GraphNode, GraphTable, HardwareDevice, KeyValuePairs, Logger,
    PROVIDER_VERSION, Part, Session, SupportInfo, TypeInfo, ValueInfo, value, with_ep_entries, with_graph_entries,
};
use crate::abi::{ApiBase, KernelContext, OpAttribute, SessionOptions, StatusPointer, Table, TensorInfo, Value};
use crate::api::{Api, Failure, methods};
use crate::types::type_of;
use onnx_cast::DataType;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// The table of version 23.
#[derive(Clone, Copy)]
pub(crate) struct GraphApi(*const GraphTable);

/// The table for execution providers.
#[derive(Clone, Copy)]
pub(crate) struct EpApi(*const EpTable);

with_graph_entries!(methods GraphApi);
with_ep_entries!(methods EpApi);

/// An onnxruntime.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) api: Api,
    pub(crate) graphs: GraphApi,
    pub(crate) providers: EpApi,
}

// SAFETY: the tables are onnxruntime's own; they never change, live as long as it does, and serve all threads.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// A value of a graph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    /// `None` if onnxruntime does not know the type, or the library does not.
    pub(crate) data_type: Option<DataType>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedAttribute {
    Int(i64),
    String(Vec<u8>),
    Other,
}

impl Host {
    /// The tables of an onnxruntime; `None` if it is older than 1.23.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn new(base: *const ApiBase) -> Option<Host> {
        // SAFETY: promised. The table of version 23 begins with that of every earlier version.
        unsafe {
            let table = ((*base).get_api)(PROVIDER_VERSION);
            if table.is_null() {
                return None;
            }
            let graphs = GraphApi(table.cast());
            Some(Host { api: Api::of_table(table.cast::<Table>()), graphs, providers: EpApi(graphs.GetEpApi()) })
        }
    }

    /// Runs what onnxruntime calls. Every failure is INVALID_ARGUMENT: at `EP_FAIL`, onnxruntime's Python package would
    /// run the model without this provider from then on, and give other results without an error.
    pub(crate) fn status(self, work: impl FnOnce() -> Result<(), Failure>) -> StatusPointer {
        self.api.status(|| work().map_err(Failure::into_argument))
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn nodes(self, graph: *const Graph) -> Result<Vec<*const GraphNode>, Failure> {
        // SAFETY: promised; the list has room for as many nodes as there are.
        unsafe {
            self.list(
                |room| self.graphs.Graph_GetNumNodes(graph, room),
                |list, count| self.graphs.Graph_GetNodes(graph, list, count),
            )
        }
    }

    /// The inputs of a node; `None` where an optional one is missing.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn inputs(self, node: *const GraphNode) -> Result<Vec<Option<NamedValue>>, Failure> {
        // SAFETY: promised; the list has room for as many inputs as there are.
        let list = unsafe {
            self.list(
                |room| self.graphs.Node_GetNumInputs(node, room),
                |list, count| self.graphs.Node_GetInputs(node, list, count),
            )
        }?;
        // SAFETY: onnxruntime gave the pointers.
        list.into_iter().map(|value| unsafe { self.value(value) }).collect()
    }

    /// The outputs of a node; `None` where one is missing.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn outputs(self, node: *const GraphNode) -> Result<Vec<Option<NamedValue>>, Failure> {
        // SAFETY: promised; the list has room for as many outputs as there are.
        let list = unsafe {
            self.list(
                |room| self.graphs.Node_GetNumOutputs(node, room),
                |list, count| self.graphs.Node_GetOutputs(node, list, count),
            )
        }?;
        // SAFETY: onnxruntime gave the pointers.
        list.into_iter().map(|value| unsafe { self.value(value) }).collect()
    }

    /// Writes a line of an OrtLoggingLevel to a log.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn log(self, logger: *const Logger, level: c_int, text: &str) {
        let text = CString::new(text).unwrap_or_default();
        // A path that is empty, in letters of one byte and of two.
        let (file, function) = ([0u16; 2], c"onnx-cast");
        // SAFETY: promised; the texts end with a zero. A session does not fail because its log does.
        let written = unsafe {
            let file = file.as_ptr().cast();
            self.graphs.Logger_LogMessage(logger, level, text.as_ptr(), file, 0, function.as_ptr())
        };
        let _ = self.api.check(written);
    }

    /// A list whose length one function gives, and whose elements another writes.
    fn list<T>(
        self,
        count: impl FnOnce(*mut usize) -> StatusPointer,
        fill: impl FnOnce(*mut *const T, usize) -> StatusPointer,
    ) -> Result<Vec<*const T>, Failure> {
        let mut len = 0;
        self.api.check(count(&mut len))?;
        let mut list = vec![ptr::null(); len];
        self.api.check(fill(list.as_mut_ptr(), len))?;
        Ok(list)
    }

    /// # Safety
    /// The pointer is onnxruntime's, or null.
    unsafe fn value(self, value: *const ValueInfo) -> Result<Option<NamedValue>, Failure> {
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: promised.
        unsafe {
            let name = self.text(|text| self.graphs.GetValueInfoName(value, text))?;
            Ok((!name.is_empty()).then(|| NamedValue { name, data_type: self.data_type(value) }))
        }
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn data_type(self, value: *const ValueInfo) -> Option<DataType> {
        let (mut info, mut tensor, mut number) = (ptr::null(), ptr::null(), 0);
        // SAFETY: promised; each function gets what the one before gave, if that is not null.
        unsafe {
            self.api.check(self.graphs.GetValueInfoTypeInfo(value, &mut info)).ok()?;
            if info.is_null() {
                return None;
            }
            self.api.check(self.graphs.CastTypeInfoToTensorInfo(info, &mut tensor)).ok()?;
            if tensor.is_null() {
                return None;
            }
            self.api.check(self.api.GetTensorElementType(tensor, &mut number)).ok()?;
        }
        type_of(number)
    }

    /// A text that a function gives, and that stays onnxruntime's.
    fn text(self, give: impl FnOnce(*mut *const c_char) -> StatusPointer) -> Result<String, Failure> {
        let mut text = ptr::null();
        self.api.check(give(&mut text))?;
        if text.is_null() {
            return Ok(String::new());
        }
        // SAFETY: onnxruntime's texts end with a zero.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// The name, the domain and the version of a node's operator.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn operator(self, node: *const GraphNode) -> Result<(String, String, i64), Failure> {
        let mut version = 0;
        // SAFETY: promised.
        unsafe {
            let name = self.text(|text| self.graphs.Node_GetOperatorType(node, text))?;
            let domain = self.text(|text| self.graphs.Node_GetDomain(node, text))?;
            self.api.check(self.graphs.Node_GetSinceVersion(node, &mut version))?;
            Ok((name, domain, version.into()))
        }
    }

    /// The attributes of a node, those with their defaults among them.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn attributes(self, node: *const GraphNode) -> Result<Vec<(String, OwnedAttribute)>, Failure> {
        // SAFETY: promised; the list has room for as many attributes as there are.
        let list = unsafe {
            self.list(
                |room| self.graphs.Node_GetNumAttributes(node, room),
                |list, count| self.graphs.Node_GetAttributes(node, list, count),
            )
        }?;
        // SAFETY: onnxruntime gave the pointers.
        list.into_iter().map(|attribute| unsafe { self.attribute(attribute) }).collect()
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn attribute(self, attribute: *const OpAttribute) -> Result<(String, OwnedAttribute), Failure> {
        let (mut kind, mut number, mut size) = (0, 0i64, 0);
        // SAFETY: promised; each read has room for what is read.
        unsafe {
            let name = self.text(|text| self.graphs.OpAttr_GetName(attribute, text))?;
            self.api.check(self.graphs.OpAttr_GetType(attribute, &mut kind))?;
            let read = |room: *mut c_void, len, size: &mut usize| {
                self.api.check(self.graphs.ReadOpAttr(attribute, kind, room, len, size))
            };
            let value = match kind {
                value::INT => {
                    read((&raw mut number).cast(), size_of::<i64>(), &mut size)?;
                    OwnedAttribute::Int(number)
                }
                value::STRING => {
                    let mut bytes = vec![0u8; 64];
                    if read(bytes.as_mut_ptr().cast(), bytes.len(), &mut size).is_err() {
                        // Now the size is known.
                        bytes.resize(size.saturating_add(1), 0);
                        read(bytes.as_mut_ptr().cast(), bytes.len(), &mut size)?;
                    }
                    bytes.truncate(size);
                    while bytes.last() == Some(&0) {
                        bytes.pop();
                    }
                    OwnedAttribute::String(bytes)
                }
                _ => OwnedAttribute::Other,
            };
            Ok((name, value))
        }
    }

    /// The entries of a session's options whose names begin with a prefix, without it.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn entries(
        self,
        options: *const SessionOptions,
        prefix: &str,
    ) -> Result<Vec<(String, String)>, Failure> {
        let (mut pairs, mut keys, mut values, mut count) = (ptr::null_mut(), ptr::null(), ptr::null(), 0);
        let mut found = Vec::new();
        // SAFETY: promised; there are `count` keys and values, which live until the pairs are released.
        unsafe {
            self.api.check(self.graphs.GetSessionOptionsConfigEntries(options, &mut pairs))?;
            self.graphs.GetKeyValuePairs(pairs, &mut keys, &mut values, &mut count);
            for index in 0..count {
                let key = CStr::from_ptr(*keys.add(index)).to_string_lossy();
                if let Some(name) = key.strip_prefix(prefix) {
                    let text = CStr::from_ptr(*values.add(index)).to_string_lossy();
                    found.push((name.to_owned(), text.into_owned()));
                }
            }
            self.graphs.ReleaseKeyValuePairs(pairs);
        }
        Ok(found)
    }
}
