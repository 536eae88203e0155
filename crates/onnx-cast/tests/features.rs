//! Do the optional features provide the traits of their crates? Each is tested if it is enabled: `cargo test
//! --all-features`.

#[cfg(feature = "half")]
#[test]
fn sixteen_bit_floats_are_those_of_half() {
    use onnx_cast::types::{BFloat16, Float16};
    for bits in 0..=u16::MAX {
        assert_eq!(half::f16::from(Float16::from_bits(bits)).to_bits(), bits);
        assert_eq!(Float16::from(half::f16::from_bits(bits)).to_bits(), bits);
        assert_eq!(half::bf16::from(BFloat16::from_bits(bits)).to_bits(), bits);
        assert_eq!(BFloat16::from(half::bf16::from_bits(bits)).to_bits(), bits);
    }
}

#[cfg(feature = "bytemuck")]
#[test]
fn bytes_are_elements_where_every_pattern_is_one() {
    use onnx_cast::types::{Float8E4M3FN, Int4};
    let elements: &[Float8E4M3FN] = bytemuck::cast_slice(&[0x38u8, 0x7f]);
    assert_eq!(elements[0].to_f32(), 1.0);
    assert!(bytemuck::checked::try_cast_slice::<u8, Int4>(&[0x0f, 0x00]).is_ok());
    assert!(bytemuck::checked::try_cast_slice::<u8, Int4>(&[0x10]).is_err());
    assert_eq!(bytemuck::cast_slice::<Int4, u8>(&[Int4::MAX]), [7]);
}

#[cfg(feature = "serde")]
#[test]
fn types_options_and_elements_survive_json() {
    use onnx_cast::types::{BFloat16, Int4};
    use onnx_cast::{CastOptions, DataType, RoundMode};
    for &data_type in DataType::ALL {
        let json = serde_json::to_string(&data_type).expect("a name");
        assert_eq!(json, format!("\"{data_type}\""));
        assert_eq!(serde_json::from_str::<DataType>(&json).expect("a type"), data_type);
    }
    let options = CastOptions::new().opset(24).saturate(false).round_mode(RoundMode::Nearest).threads(2);
    let json = serde_json::to_string(&options).expect("options");
    assert_eq!(json, r#"{"opset":24,"saturate":false,"round_mode":"nearest","threads":2}"#);
    assert_eq!(serde_json::from_str::<CastOptions>(&json).expect("options"), options);
    assert_eq!(serde_json::from_str::<CastOptions>("{}").expect("defaults"), CastOptions::new());
    assert!(serde_json::from_str::<CastOptions>(r#"{"opsets":24}"#).is_err());
    let nan = BFloat16::from_bits(0xffc1);
    assert_eq!(serde_json::to_string(&nan).expect("bits"), "65473");
    assert_eq!(serde_json::from_str::<BFloat16>("65473").expect("bits").to_bits(), 0xffc1);
    assert!(serde_json::from_str::<Int4>("16").is_err());
}
