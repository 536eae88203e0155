//! Jobs that replace their outputs: a test runs several with one output.

use onnx_cast::TensorView;
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, FileError, Format, FormatError, QuantizeRequest, Summary,
    TranscodeRequest, WriteOptions,
};
use std::path::Path;

macro_rules! replacing {
    ($($job:ident: $request:ident,)*) => {$(
        pub(crate) fn $job(
            input: impl AsRef<Path>,
            output: impl AsRef<Path>,
            request: &$request,
        ) -> Result<Summary, FileError> {
            let mut request = request.clone();
            request.run.write.force = true;
            onnx_cast_file::$job(input, output, &request)
        }
    )*};
}

replacing! {
    bit_cast_file: BitCastRequest,
    cast_file: CastRequest,
    dequantize_file: DequantizeRequest,
    quantize_file: QuantizeRequest,
    transcode_file: TranscodeRequest,
}

pub(crate) fn write_tensor(
    path: impl AsRef<Path>,
    format: Format,
    name: &str,
    tensor: TensorView<'_>,
    options: &WriteOptions,
) -> Result<(), FormatError> {
    onnx_cast_file::write_tensor(path, format, name, tensor, &options.force(true))
}
