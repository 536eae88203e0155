//! Do files use the names that other software reads? Each name is one of its owner's own list.

use onnx_cast::DataType;
use safetensors::Dtype;

#[test]
fn names_of_safetensors_are_those_of_its_crate() {
    for data_type in DataType::ALL {
        let Some(name) = data_type.interchange().safetensors else { continue };
        let theirs = serde_json::from_value::<Dtype>(name.into());
        let row = "crates/onnx-cast/src/element/interchange.rs";
        let dtype = theirs.unwrap_or_else(|_| panic!("{row}: safetensors has no `{name}`, the name of {data_type}"));
        assert_eq!(Some(dtype.bitsize()), data_type.bits(), "{row}: bits of `{name}`, the name of {data_type}");
    }
}
