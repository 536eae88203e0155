//! The ONNX operators Cast, CastLike and BitCast.
