//! The statuses that functions return.

/// What a function returns, as an int.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_status {
    /// Done.
    ONNX_CAST_OK = 0,
    /// A null pointer, a number that stands for nothing, offsets out of order, shapes that do not fit, a zero point
    /// that must be 0, or a struct of an unknown size.
    ONNX_CAST_INVALID_ARGUMENT = 1,
    /// The operator does not take the type, the attribute or the opset, or this machine lacks the backend.
    ONNX_CAST_UNSUPPORTED = 2,
    /// A size that does not fit in memory.
    ONNX_CAST_OVERFLOW = 3,
    /// The buffer for the result is too small; nothing is written beyond its end.
    ONNX_CAST_BUFFER_TOO_SMALL = 4,
    /// The buffer for the result lies in memory that is read.
    ONNX_CAST_OVERLAP = 5,
    /// A string that is not a number of the target type. What the buffer for the result holds is unspecified.
    ONNX_CAST_NOT_A_NUMBER = 6,
    /// Memory that the system refuses.
    ONNX_CAST_OUT_OF_MEMORY = 7,
    /// A fault of this library's. Please report it, with the text.
    ONNX_CAST_INTERNAL = 8,
}
