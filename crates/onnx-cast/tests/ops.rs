//! Does the interface match its documentation? The ways to build and to run an operator agree, memory is reused where
//! the bytes stay the same, buffers must have the right size, and every error has its text. (`spec` and `coverage` test
//! the results and the supported types and attributes.)

use onnx_cast::DataType::{
    Bool, Double, Float, Float4E2M1, Float6E2M3, Float8E8M0, Int2, Int4, Int8, String, Uint2, Uint4, Uint8,
};
use onnx_cast::backend::{self, Backend};
use onnx_cast::ops::*;
use onnx_cast::ops::{Attribute, AttributeValue, Dim, ValueInfo};
use onnx_cast::scalar;
use onnx_cast::tensor::*;
use onnx_cast::types::*;
use std::error::Error;

type Int4Element = onnx_cast::types::Int4;

fn int(name: &str, value: i64) -> Attribute<'_> {
    Attribute { name, value: AttributeValue::Int(value) }
}

fn word<'a>(name: &'a str, value: &'a str) -> Attribute<'a> {
    Attribute { name, value: AttributeValue::String(value.as_bytes()) }
}

fn at(opset: i64) -> CastOptions {
    CastOptions::new().opset(opset)
}

/// The newest Cast on each backend.
fn casts(to: DataType) -> impl Iterator<Item = Cast> {
    backend::available()
        .map(move |backend| Cast::new(to, &CastOptions::new().backend(backend)).expect("a type of Cast"))
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(vec![values.len()], values).expect("one dimension")
}

fn address(tensor: &Tensor) -> *const u8 {
    tensor.bytes().expect("not strings").as_ptr()
}

#[test]
fn a_node_and_its_options_build_the_same_operator() {
    for version in Operator::Cast.versions() {
        let opset = *version;
        for &to in DataType::ALL.iter().filter(|&&to| Operator::Cast.supports(*version, to)) {
            let name = to.name().to_uppercase();
            let number = int("to", to.onnx().into());
            let to_attribute = if opset < 6 { word("to", &name) } else { number };
            assert_eq!(Cast::from_node(opset, &[to_attribute]), Cast::new(to, &at(opset)), "Cast-{opset} to {to}");
            for (saturate, value) in [(true, 1), (true, 2), (true, -1), (true, i64::MIN), (false, 0)] {
                let options = at(opset).saturate(saturate);
                let node = Cast::from_node(opset, &[to_attribute, int("saturate", value)]);
                // An option at its default is accepted at every opset, an attribute is not.
                let has_attribute = opset >= 19;
                assert_eq!(node.is_ok(), has_attribute, "Cast-{opset} to {to}, saturate {value}");
                assert_eq!(Cast::new(to, &options).is_ok(), has_attribute || saturate, "Cast-{opset} to {to}");
                if has_attribute {
                    assert_eq!(node, Cast::new(to, &options), "Cast-{opset} to {to}, saturate {value}");
                }
            }
            for &mode in RoundMode::ALL {
                let options = at(opset).round_mode(mode);
                let node = Cast::from_node(opset, &[word("round_mode", mode.name()), to_attribute]);
                let has_attribute = opset >= 24;
                assert_eq!(node.is_ok(), has_attribute, "Cast-{opset} to {to}, round_mode {mode}");
                let is_accepted = has_attribute || mode == RoundMode::Up;
                assert_eq!(Cast::new(to, &options).is_ok(), is_accepted, "Cast-{opset} to {to}, round_mode {mode}");
                if has_attribute {
                    assert_eq!(node, Cast::new(to, &options), "Cast-{opset} to {to}, round_mode {mode}");
                }
            }
        }
    }
    for version in Operator::CastLike.versions() {
        let opset = *version;
        assert_eq!(CastLike::from_node(opset, &[]), CastLike::new(&at(opset)), "CastLike-{opset}");
        let options = at(opset).saturate(false).round_mode(RoundMode::Down);
        let node = CastLike::from_node(opset, &[int("saturate", 0), word("round_mode", "down")]);
        assert_eq!(node.is_ok(), opset >= 24);
        assert_eq!(node.ok(), CastLike::new(&options).ok(), "CastLike-{opset}");
    }
    for &to in DataType::ALL.iter().filter(|&&to| Operator::BitCast.supports(26, to)) {
        assert_eq!(BitCast::from_node(26, &[int("to", to.onnx().into())]), BitCast::new(to, 26), "BitCast to {to}");
    }
}

#[test]
fn an_operator_knows_what_it_is() {
    let cast = Cast::new(Float8E8M0, &at(27)).expect("Cast-25");
    assert_eq!((cast.target_type(), cast.version()), (Float8E8M0, 25));
    assert_eq!(cast.rules(), scalar::Rules::new(Float8E8M0, 25, true, RoundMode::Up));
    let plan = cast.plan(Double).expect("Cast-25 takes double");
    assert_eq!((plan.source_type(), plan.target_type()), (Double, Float8E8M0));
    assert_eq!(CastLike::new(&at(22)).map(|like| like.version()), Ok(21));
    let bit_cast = BitCast::new(Int8, 28).expect("BitCast-26");
    assert_eq!((bit_cast.target_type(), bit_cast.version()), (Int8, 26));
    assert_eq!(CastOptions::default().opset, NEWEST_OPSET);
}

#[test]
fn every_way_to_run_a_cast_gives_the_same() {
    let input = floats(&[1.0, -2.5, 0.3, f32::INFINITY, f32::NAN]);
    for &to in DataType::ALL.iter().filter(|to| Operator::Cast.since(**to).is_some()) {
        for cast in casts(to) {
            let plan = cast.plan(Float).expect("Cast-28 takes float");
            let want = cast.run(&input.view()).expect("floats are cast to everything");
            assert_eq!((want.data_type(), want.shape()), (to, input.shape()));
            assert_eq!(plan.run(&input.view()).as_ref(), Ok(&want), "{to}");
            assert_eq!(cast.run_owned(input.clone()).as_ref(), Ok(&want), "{to}");
            assert_eq!(plan.run_owned(input.clone()).as_ref(), Ok(&want), "{to}");
            if to == String {
                let (mut one, mut two) = (Strings::new(), ["left over"].iter().collect());
                assert_eq!(cast.run_strings_into(&input.view(), &mut one), Ok(()));
                assert_eq!(plan.run_strings_into(&input.view(), &mut two), Ok(()));
                assert_eq!(want.view().data(), Data::Strings(one.view()));
                assert_eq!(one, two);
            } else {
                let mut one = vec![0xa5; want.bytes().expect("not strings").len()];
                let mut two = one.clone();
                assert_eq!(cast.run_into(&input.view(), &mut one), Ok(()));
                assert_eq!(plan.run_into(&input.view(), &mut two), Ok(()));
                assert_eq!((want.bytes(), &one), (Some(&*two), &two), "{to}");
            }
            let like = CastLike::new(&at(25)).expect("CastLike-25");
            if Operator::CastLike.supports(25, to) {
                assert_eq!(like.run(&input.view(), to).as_ref(), Ok(&want), "{to}");
            }
        }
    }
    let like = CastLike::new(&at(25)).expect("CastLike-25");
    let (mut bytes, mut strings) = ([0; 5], Strings::new());
    assert_eq!(like.run_into(&input.view(), Int8, &mut bytes), Ok(()));
    assert_eq!(bytes, [1, 0xfe, 0, 0x7f, 0]);
    assert_eq!(like.run_strings_into(&input.view(), &mut strings), Ok(()));
    assert_eq!(strings, ["1", "-2.5", "0.3", "INF", "NaN"].iter().collect());
}

#[test]
fn owned_tensors_keep_their_memory_where_the_bytes_stay() {
    for &data_type in DataType::ALL.iter().filter(|data_type| data_type.is_numeric() && **data_type != Bool) {
        for cast in casts(data_type) {
            let bytes = vec![0x5a; data_type.byte_len(9).expect("small")];
            let input = Tensor::new(data_type, vec![3, 3], bytes).expect("nine elements");
            let (before, copy) = (address(&input), cast.run(&input.view()).expect("the same type"));
            let got = cast.run_owned(input).expect("the same type");
            assert_eq!(address(&got), before, "{data_type} is moved");
            assert_eq!(got, copy, "{data_type}");
        }
        for &to in DataType::ALL.iter().filter(|to| to.bits() == data_type.bits()) {
            let Ok(bit_cast) = BitCast::new(to, 26) else { continue };
            let bytes = vec![0x5a; data_type.byte_len(9).expect("small")];
            let input = Tensor::new(data_type, vec![3, 3], bytes).expect("nine elements");
            let Ok(copy) = bit_cast.run(&input.view()) else { continue };
            let before = address(&input);
            let got = bit_cast.run_owned(input).expect("as the copy");
            assert_eq!((address(&got), got.data_type(), got.shape()), (before, to, &[3, 3][..]), "{data_type} -> {to}");
            assert_eq!(got, copy, "{data_type} -> {to}");
        }
    }
    let strings = Tensor::strings(vec![2], ["a", "b"].iter().collect()).expect("two strings");
    let Data::Strings(view) = strings.view().data() else { panic!("strings") };
    let before = view.bytes().as_ptr();
    let got = Cast::new(String, &at(28)).expect("Cast-28").run_owned(strings).expect("strings");
    let Data::Strings(view) = got.view().data() else { panic!("strings") };
    assert_eq!(view.bytes().as_ptr(), before, "strings are moved");
}

#[test]
fn padding_is_zeroed_and_bool_made_0_or_1_even_where_nothing_else_changes() {
    let packed = [(Int4, 0x0f), (Uint4, 0x0f), (Float4E2M1, 0x0f), (Int2, 0x03), (Uint2, 0x03), (Float6E2M3, 0x3f)];
    for (data_type, mask) in packed {
        let input = Tensor::new(data_type, vec![1], vec![0xff]).expect("one element");
        for cast in casts(data_type) {
            let mut out = [0xff];
            assert_eq!(cast.run_into(&input.view(), &mut out), Ok(()));
            assert_eq!(out, [mask], "{data_type}");
            for got in [cast.run(&input.view()), cast.run_owned(input.clone())] {
                assert_eq!(got.as_ref().map(Tensor::bytes), Ok(Some(&[mask][..])), "{data_type}");
            }
        }
    }
    // Elements that fill all bytes leave no padding.
    let full = Tensor::new(Int4, vec![2], vec![0xff]).expect("two elements");
    for cast in casts(Int4) {
        assert_eq!(cast.run_owned(full.clone()).as_ref(), Ok(&full));
    }
    let truths = Tensor::new(Bool, vec![5], vec![0, 1, 2, 0x80, 0xff]).expect("five elements");
    for cast in casts(Bool) {
        let mut out = [0xa5; 5];
        assert_eq!(cast.run_into(&truths.view(), &mut out), Ok(()));
        assert_eq!(out, [0, 1, 1, 1, 1]);
        for got in [cast.run(&truths.view()), cast.run_owned(truths.clone())] {
            assert_eq!(got.as_ref().map(Tensor::bytes), Ok(Some(&[0, 1, 1, 1, 1][..])));
        }
    }
    let kept = BitCast::new(Uint8, 26).expect("BitCast-26").run_owned(truths).expect("eight bits");
    assert_eq!(kept.bytes(), Some(&[0, 1, 2, 0x80, 0xff][..]), "BitCast keeps a bool's byte");
    let back = BitCast::new(Bool, 26).expect("BitCast-26").run(&kept.view()).expect("eight bits");
    assert_eq!(back.bytes(), kept.bytes());
}

#[test]
fn slices_are_cast_in_place_of_tensors() {
    let options = CastOptions::default();
    let mut truths = [true; 4];
    assert_eq!(cast_slice(&[0.0f64, -0.0, 1e-300, f64::NAN], &mut truths, &options), Ok(()));
    assert_eq!(truths, [false, false, true, true]);
    let mut halves = [Float16::default(); 2];
    assert_eq!(cast_slice(&[65520u64, 1], &mut halves, &options), Ok(()));
    assert_eq!(halves.map(Float16::to_bits), [0x7c00, 0x3c00]);
    assert_eq!(cast_slice::<f32, i64>(&[], &mut [], &options), Ok(()));
    // A cast to the same type keeps every bit, even of a signalling NaN.
    let mut same = [Float16::default(); 1];
    assert_eq!(cast_slice(&[Float16::from_bits(0x7c01)], &mut same, &options), Ok(()));
    assert_eq!(same[0].to_bits(), 0x7c01);
    let error = cast_slice(&[1i8; 3], &mut [0f32; 2], &options);
    assert_eq!(error, Err(CastErrorKind::OutputLen { data_type: Float, elements: 3, got: 2, want: 3 }.into()));
    let error = cast_slice(&[1i8; 3], &mut [BFloat16::default(); 3], &at(9));
    assert!(matches!(
        error.as_ref().map_err(CastError::kind),
        Err(CastErrorKind::Op(OpErrorKind::Type { version: 9, data_type: DataType::BFloat16, .. }))
    ));
}

/// Compares `cast_slice` and `cast_slice_packed` with the operator, on more elements than a block.
#[test]
fn slices_of_every_type_are_cast_as_tensors_are() {
    const LEN: usize = 600;
    fn pair<S: onnx_cast::types::Element, D: onnx_cast::types::Element>() {
        let bits = (0..LEN as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i);
        let elements: Vec<S> = bits.map(|bits| S::from_bits(onnx_cast::types::Word::from_u64(bits))).collect();
        let source = Tensor::from_slice(vec![LEN], &elements).expect("as many elements");
        let want = Cast::new(D::DATA_TYPE, &at(28)).expect("a type").run(&source.view()).expect("a cast");
        let pair = format!("{} -> {}", S::DATA_TYPE, D::DATA_TYPE);

        let mut results = vec![D::default(); LEN];
        assert_eq!(cast_slice(&elements, &mut results, &at(28)), Ok(()), "{pair}");
        assert_eq!(Tensor::from_slice(vec![LEN], &results).expect("as many").bytes(), want.bytes(), "{pair}");

        let mut bytes = vec![0xa5; D::DATA_TYPE.byte_len(LEN).expect("few")];
        assert_eq!(cast_slice_packed::<S, D>(&elements, &mut bytes, &at(28)), Ok(()), "{pair}");
        assert_eq!(Some(&bytes[..]), want.bytes(), "{pair}");
        let error = cast_slice_packed::<S, D>(&elements, &mut bytes[1..], &at(28));
        assert!(
            matches!(error.as_ref().map_err(CastError::kind), Err(CastErrorKind::OutputLen { elements: LEN, .. })),
            "{pair}: {error:?}"
        );
    }
    macro_rules! rows {
        ([$($from:ident)*] $to:tt) => { $(rows!($from $to);)* };
        ($from:ident [$($to:ident)*]) => { $(pair::<$from, $to>();)* };
    }
    use onnx_cast::types::{Float8E8M0, Int2, Int4, Uint2};
    rows!([f32 u8 i64 bool Float16 f64 Float8E5M2 Int4 Uint2] [f32 i8 u64 bool BFloat16 Float8E8M0 Int4 Int2 Uint2]);
    rows!([Int4 Int2] [f64 Int4 Int2]);
    type Six = onnx_cast::types::Float6E3M2;
    rows!([Six f32 Int4] [Six u16]);
}

#[test]
fn uninitialised_memory_is_written_whole() {
    use std::mem::MaybeUninit;
    let source = floats(&[1.0, -2.5, 3.0]);
    for (to, want) in [(Float, 12), (Int8, 3), (Int4, 2)] {
        let cast = Cast::new(to, &at(28)).expect("a type");
        let mut memory = vec![MaybeUninit::uninit(); want];
        let got = cast.run_into_uninit(&source.view(), &mut memory).expect("room").to_vec();
        assert_eq!(Some(&got[..]), cast.run(&source.view()).expect("a cast").bytes(), "{to}");
        let error = cast.run_into_uninit(&source.view(), &mut memory[1..]).expect_err("too short");
        assert_eq!(error, CastErrorKind::OutputLen { data_type: to, elements: 3, got: want - 1, want }.into());
        let like = CastLike::new(&at(25)).expect("CastLike");
        assert_eq!(like.run_into_uninit(&source.view(), to, &mut memory).map(|got| got.to_vec()), Ok(got));
    }
    let bit_cast = BitCast::new(DataType::Uint32, 28).expect("BitCast");
    let mut memory = [MaybeUninit::uninit(); 12];
    assert_eq!(bit_cast.run_into_uninit(&source.view(), &mut memory).map(|got| &*got).ok(), source.bytes());
    let texts = Tensor::strings(vec![3], ["1", "2", "-1"].into_iter().collect()).expect("three");
    let cast = Cast::new(Int4, &at(28)).expect("a type");
    let mut memory = [MaybeUninit::uninit(); 2];
    assert_eq!(cast.run_into_uninit(&texts.view(), &mut memory).map(|got| got.to_vec()), Ok(vec![0x21, 0x0f]));
}

#[test]
fn a_view_borrows_a_slice() {
    let elements = [1.5f32, -0.0];
    let view = TensorView::from_slice(&[2, 1], &elements);
    if cfg!(target_endian = "big") {
        assert_eq!(view, Err(TensorErrorKind::SliceLayout { data_type: Float }.into()));
    } else {
        let view = view.expect("two elements");
        assert_eq!(view.bytes().map(<[u8]>::as_ptr), Some(elements.as_ptr().cast()));
        assert_eq!(view.to_tensor(), Tensor::from_slice(vec![2, 1], &elements).expect("two elements"));
        let error = TensorView::from_slice(&[3], &elements);
        assert_eq!(error, Err(TensorErrorKind::ByteLen { data_type: Float, shape: vec![3], got: 8, want: 12 }.into()));
    }
    let packed = [Int4Element::from_bits(1), Int4Element::from_bits(15), Int4Element::from_bits(7)];
    assert_eq!(TensorView::from_slice(&[3], &packed), Err(TensorErrorKind::SliceLayout { data_type: Int4 }.into()));
    let tensor = Tensor::from_slice(vec![3], &packed).expect("three");
    assert_eq!(tensor.bytes(), Some(&[0xf1, 0x07][..]));
    assert_eq!(tensor.to_vec::<Int4Element>(), Some(packed.to_vec()));
}

#[test]
fn typed_tensors_give_back_their_elements() {
    let tensor = Tensor::from_slice(vec![2], &[Float8E5M2::from_bits(0x3c), Float8E5M2::from_bits(0xff)]);
    let tensor = tensor.expect("two elements");
    assert_eq!(tensor.to_vec::<Float8E5M2>().map(|v| v.len()), Some(2));
    assert_eq!(tensor.to_vec::<u8>(), None, "of another type");
    assert_eq!(floats(&[1.5, -0.0]).to_vec::<f32>().map(|v| v.map_bits()), Some(vec![0x3fc0_0000, 0x8000_0000]));
    assert_eq!(floats(&[1.0]).bytes(), Some(&[0, 0, 0x80, 0x3f][..]), "little endian");
    assert_eq!(floats(&[1.0]).view().to_tensor(), floats(&[1.0]));
    let strings = Tensor::strings(vec![1], ["x"].iter().collect()).expect("one string");
    assert_eq!((strings.to_vec::<u8>(), strings.bytes()), (None, None));
    assert_eq!(strings.view().to_tensor(), strings);
    assert!(!strings.is_empty() && floats(&[]).is_empty() && floats(&[]).view().is_empty());
}

/// A slice has the type, the alignment and the bytes of the tensor.
#[test]
fn a_tensor_is_a_typed_slice_where_its_bytes_are_one() {
    // A big-endian machine has typed slices of 8 bits only, and no view of these floats.
    let memory = [1.5f32, -0.0, 2.0];
    let floats = TensorView::from_slice(&[3], &memory);
    let Some(bytes) = floats.ok().and_then(|floats| floats.bytes()) else { return };
    let view = |data_type, len: &'static [usize], bytes| TensorView::new(data_type, len, bytes).expect("its bytes");
    let aligned = view(Float, &[3], bytes);
    assert_eq!(aligned.as_slice::<f32>().map(<[f32]>::as_ptr_range), Some(memory.as_ptr_range()));
    assert_eq!((aligned.as_slice::<i32>(), aligned.as_slice::<u8>()), (None, None), "of another type");
    assert_eq!(view(Float, &[2], &bytes[1..9]).as_slice::<f32>(), None, "not aligned");
    let halves = view(onnx_cast::DataType::Float16, &[2, 1], &bytes[2..6])
        .as_slice::<onnx_cast::types::Float16>()
        .map(<[_]>::len);
    assert_eq!(halves, Some(2));
    assert_eq!(view(Float, &[0], &bytes[1..1]).as_slice::<f32>(), Some(&[][..]), "no elements, no alignment");
    assert_eq!(view(Uint8, &[12], bytes).as_slice(), Some(bytes));
    assert_eq!(view(Int4, &[3], &bytes[..2]).as_slice::<Int4Element>(), None, "packed");
    assert_eq!(view(Bool, &[2], &[1, 0]).as_slice(), Some(&[true, false][..]));
    assert_eq!(view(Bool, &[2], &[1, 2]).as_slice::<bool>(), None, "2 is not a bool");
    let strings = Tensor::strings(vec![1], ["x"].iter().collect()).expect("one string");
    assert_eq!(strings.view().as_slice::<u8>(), None);
    assert_eq!(strings.into_bytes(), None);
    let tensor = Tensor::from_slice(vec![3], &memory).expect("three");
    let (address, want) = (address(&tensor), tensor.bytes().map(<[u8]>::to_vec));
    let bytes = tensor.into_bytes();
    assert_eq!(bytes.as_deref().map(<[u8]>::as_ptr), Some(address), "no copy");
    assert_eq!(bytes, want);
}

trait MapBits {
    fn map_bits(self) -> Vec<u32>;
}

impl MapBits for Vec<f32> {
    fn map_bits(self) -> Vec<u32> {
        self.into_iter().map(f32::to_bits).collect()
    }
}

#[test]
fn an_output_must_fit() {
    for cast in casts(Int4) {
        for (got, want) in [(1, 2), (3, 2), (0, 2)] {
            let mut out = vec![0xa5; got];
            let error = cast.run_into(&floats(&[1.0; 3]).view(), &mut out);
            assert_eq!(error, Err(CastErrorKind::OutputLen { data_type: Int4, elements: 3, got, want }.into()));
            assert_eq!(out, vec![0xa5; got], "nothing is written");
        }
        let mut strings: Strings = ["stays"].iter().collect();
        let error = cast.run_strings_into(&floats(&[1.0]).view(), &mut strings);
        assert_eq!(error, Err(CastErrorKind::OutputKind { data_type: Int4 }.into()));
        assert_eq!(strings, ["stays"].iter().collect());
    }
    let to_string = Cast::new(String, &at(28)).expect("Cast-28");
    let error = to_string.run_into(&floats(&[1.0]).view(), &mut [0; 4]);
    assert_eq!(error, Err(CastErrorKind::OutputKind { data_type: String }.into()));
    let plan = to_string.plan(Float).expect("Cast-28 takes float");
    let wrong = Tensor::from_slice(vec![1], &[1i8]).expect("one element");
    assert_eq!(plan.run(&wrong.view()), Err(CastErrorKind::InputType { got: Int8, want: Float }.into()));
    assert_eq!(plan.run_owned(wrong), Err(CastErrorKind::InputType { got: Int8, want: Float }.into()));
}

#[test]
fn a_failed_cast_of_strings_gives_no_tensor() {
    let strings = Tensor::strings(vec![2], ["1", "x"].iter().collect()).expect("two strings");
    for cast in casts(Float) {
        assert!(matches!(
            cast.run(&strings.view()).as_ref().map_err(CastError::kind),
            Err(CastErrorKind::Text { index: 1, to: Float, .. })
        ));
        assert!(matches!(
            cast.run_owned(strings.clone()).as_ref().map_err(CastError::kind),
            Err(CastErrorKind::Text { index: 1, to: Float, .. })
        ));
    }
}

#[test]
fn inference_refuses_what_the_operator_refuses() {
    let info = |data_type| ValueInfo { data_type, shape: Some(vec![Dim::Unknown]) };
    let cast = Cast::new(Float, &at(9)).expect("Cast-9");
    assert_eq!(cast.infer(&info(DataType::BFloat16)).err(), cast.plan(DataType::BFloat16).err());
    let like = CastLike::new(&at(15)).expect("CastLike-15");
    assert_eq!(like.infer(&info(Float), &info(Int4)).err(), like.plan(Float, Int4).err());
    assert_eq!(like.infer(&info(Int4), &info(Float)).err(), like.plan(Int4, Float).err());
    assert!(like.infer(&info(Int4), &info(Float)).is_err());
    let bit_cast = BitCast::new(Float, 26).expect("BitCast-26");
    assert_eq!(bit_cast.infer(&info(Double)).err(), bit_cast.plan(Double).err());
}

#[test]
fn a_backend_goes_by_its_name() {
    for backend in backend::available() {
        assert_eq!(Backend::by_name(backend.name()), Ok(backend));
        assert_eq!(Backend::by_name(&backend.name().to_uppercase()), Ok(backend));
        assert_eq!(format!("{backend:?}"), format!("Backend({})", backend.name()));
    }
    let names: Vec<_> = backend::available().map(Backend::name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    let error = Backend::by_name("abacus").expect_err("no such backend");
    assert_eq!(error.to_string(), format!("no backend `abacus` on this machine (want one of {})", names.join(" ")));
}

/// The choice is made once per process, so each runs in a new process of this test binary.
#[test]
#[cfg_attr(miri, ignore = "it starts a process")]
fn the_environment_variable_forces_a_backend() {
    const CHILD: &str = "ONNX_CAST_TEST_PRINTS_ITS_BACKEND";
    if std::env::var_os(CHILD).is_some() {
        println!("chosen: {}.", Backend::best().name());
        return;
    }
    let best = backend::available().next().expect("a backend").name();
    let names = backend::available().map(|backend| (backend.name(), backend.name()));
    for (forced, want) in names.chain([("", best), ("abacus", best), ("Portable", "portable")]) {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test has a path"));
        child.args(["--exact", "the_environment_variable_forces_a_backend", "--nocapture"]);
        let output = child.env(CHILD, "1").env(backend::VARIABLE, forced).output().expect("the test runs");
        let text = std::string::String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("chosen: {want}.")), "forced to `{forced}`: {text}");
    }
}

#[test]
fn every_error_has_its_text() {
    let name: std::string::String = "n".repeat(70);
    let short = format!("{}...", "n".repeat(64));
    let strings = Tensor::strings(vec![1], ["1e9"].iter().collect()).expect("one string");
    let offsets = |offsets: &[u64]| StringsView::new(offsets, b"abc").map(|_| ()).expect_err("no strings");
    let huge = [usize::MAX, 2];
    let view = |data_type, shape: &'static [usize], len| {
        TensorView::new(data_type, shape, &[0; 16][..len]).map(|_| ()).expect_err("no tensor")
    };
    let cast = |opset, attributes: &[Attribute<'_>]| Cast::from_node(opset, attributes).expect_err("no operator");
    let types = DataType::onnx_numbers();
    let cases: Vec<(Box<dyn Error>, std::string::String)> = vec![
        // OpError
        (cast(0, &[]).into(), "opset 0 has no Cast known here (want 1 to 28)".into()),
        (CastLike::new(&at(14)).expect_err("14").into(), "opset 14 has no CastLike known here (want 15 to 28)".into()),
        (BitCast::new(Float, 29).expect_err("29").into(), "opset 29 has no BitCast known here (want 26 to 28)".into()),
        (
            cast(13, &[int("to", 17)]).into(),
            "Cast-13 does not take float8e4m3fn (Cast-19 is the first that does)".into(),
        ),
        (cast(28, &[int("to", 14)]).into(), "Cast-28 does not take complex64 (no version of Cast does)".into()),
        (cast(28, &[int("to", 0)]).into(), format!("Cast: `to` is 0, which is not an element type (want {types})")),
        (cast(6, &[int("to", 99)]).into(), format!("Cast: `to` is 99, which is not an element type (want {types})")),
        (
            BitCast::from_node(26, &[int("to", -1)]).expect_err("-1").into(),
            format!("BitCast: `to` is -1, which is not an element type (want {types})"),
        ),
        (
            cast(1, &[word("to", &name)]).into(),
            format!("Cast-1: `to` is `{short}`, which does not name an element type (want one like `FLOAT16`)"),
        ),
        (
            cast(23, &[int("to", 1), word("round_mode", "up")]).into(),
            "Cast-23 has no attribute `round_mode` (Cast-24 is the first that has it)".into(),
        ),
        (
            Cast::new(Float, &at(13).saturate(false)).expect_err("13").into(),
            "Cast-13 has no attribute `saturate` (Cast-19 is the first that has it)".into(),
        ),
        (
            CastLike::new(&at(23).round_mode(RoundMode::Down)).expect_err("23").into(),
            "CastLike-23 has no attribute `round_mode` (CastLike-24 is the first that has it)".into(),
        ),
        (cast(28, &[int("axis", 1)]).into(), "Cast-28 has no attribute `axis`".into()),
        (cast(28, &[int(&name, 1)]).into(), format!("Cast-28 has no attribute `{short}`")),
        (cast(28, &[word("to", "FLOAT")]).into(), "Cast-28: attribute `to` is not of kind INT".into()),
        (cast(1, &[int("to", 1)]).into(), "Cast-1: attribute `to` is not of kind STRING".into()),
        (
            cast(28, &[int("to", 1), Attribute { name: "saturate", value: AttributeValue::Other }]).into(),
            "Cast-28: attribute `saturate` is not of kind INT".into(),
        ),
        (cast(28, &[int("to", 1), int("to", 1)]).into(), "Cast: attribute `to` is given twice".into()),
        (cast(28, &[]).into(), "Cast-28: attribute `to` is missing".into()),
        (BitCast::from_node(27, &[]).expect_err("no to").into(), "BitCast-26: attribute `to` is missing".into()),
        (
            cast(28, &[int("to", 1), word("round_mode", "Up\n")]).into(),
            r"round_mode `Up\n` is not known (want up, down or nearest)".into(),
        ),
        (
            BitCast::new(Int8, 26).and_then(|b| b.plan(Float4E2M1)).expect_err("4 bits").into(),
            "BitCast from float4e2m1 (4 bits) to int8 (8 bits): the widths differ".into(),
        ),
        // TensorError
        (
            TensorView::new(Float, &huge, &[]).map(|_| ()).expect_err("huge").into(),
            format!("a float tensor of shape {}x2 does not fit in memory", usize::MAX),
        ),
        (view(DataType::Float16, &[2, 2], 7).into(), "7 bytes for 2x2 float16 (want 8)".into()),
        (view(Int4, &[], 0).into(), "0 bytes for scalar int4 (want 1)".into()),
        (view(Float6E2M3, &[5], 3).into(), "3 bytes for 5 float6e2m3 (want 4)".into()),
        (
            Tensor::strings(vec![2, 3], Strings::new()).map(|_| ()).expect_err("none").into(),
            "0 strings for shape 2x3 (want 6)".into(),
        ),
        (
            offsets(&[0, 2, 1, 3]).into(),
            "string offset 2 is out of order (offsets start at 0, rise, and end with the bytes)".into(),
        ),
        (view(String, &[1], 1).into(), "a string tensor's data is offsets and bytes, not bytes alone".into()),
        (
            TensorView::new(Int8, &huge, &[]).map(|_| ()).expect_err("huge").into(),
            format!("an int8 tensor of shape {}x2 does not fit in memory", usize::MAX),
        ),
        (
            TensorView::from_slice(&[1], &[Int4Element::default()]).map(|_| ()).expect_err("packed").into(),
            "the memory of an int4 slice is not a tensor's bytes (want a copy)".into(),
        ),
        // CastError
        (
            Cast::new(Int8, &at(28)).expect("Cast-28").run(&strings.view()).expect_err("1e9").into(),
            r#"element 0: "1e9" is out of range (to int8)"#.into(),
        ),
        (
            CastError::from(CastErrorKind::InputType { got: Int8, want: Float }).into(),
            "an input of int8 for a cast planned from float".into(),
        ),
        (
            CastError::from(CastErrorKind::OutputLen { data_type: Int4, elements: 3, got: 1, want: 2 }).into(),
            "an output of 1 byte for 3 int4 (want 2)".into(),
        ),
        (
            CastError::from(CastErrorKind::OutputLen { data_type: Float, elements: 3, got: 2, want: 3 }).into(),
            "an output of 2 elements for 3 float (want 3)".into(),
        ),
        (
            CastError::from(CastErrorKind::OutputKind { data_type: String }).into(),
            "an output that does not hold string".into(),
        ),
        (
            CastError::from(OpErrorKind::MissingTo { operator: Operator::Cast, version: 6 }).into(),
            "Cast-6: attribute `to` is missing".into(),
        ),
        (CastError::from(TensorErrorKind::NotBytes).into(), TensorErrorKind::NotBytes.to_string()),
        // ParseError
        (ParseError::NotANumber.into(), "is not a number".into()),
        (ParseError::OutOfRange.into(), "is out of range".into()),
        (ParseError::NotFinite.into(), "has no integer value".into()),
    ];
    for (error, want) in cases {
        assert_eq!(error.to_string(), want, "{error:?}");
        assert!(!want.ends_with('.'), "{want}");
    }
    let names: Vec<_> = DataType::ALL.iter().map(|data_type| data_type.name()).collect();
    let error = "nonsense".parse::<DataType>().expect_err("no such type");
    assert_eq!(error.to_string(), format!("`nonsense` is not an element type (want one of {})", names.join(", ")));
    let error = "float17".parse::<DataType>().expect_err("no such type");
    assert_eq!(error.to_string(), "`float17` is not an element type (did you mean `float16`?)");
}

#[test]
fn an_error_is_small_and_tells_its_kind() {
    assert_eq!(size_of::<Result<(), CastError>>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), OpError>>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), TensorError>>(), size_of::<usize>());
    let kind = OpErrorKind::MissingTo { operator: Operator::Cast, version: 6 };
    let error = CastError::from(OpError::from(kind.clone()));
    assert_eq!(error.kind(), &CastErrorKind::Op(kind.clone()));
    assert_eq!(error.to_string(), kind.to_string());
    assert_eq!(error.clone().into_kind(), CastErrorKind::Op(kind));
    // A text holds those of its causes, so that nothing that prints the chain prints them twice.
    assert!(error.source().is_none());
}

#[test]
fn string_offsets_are_checked() {
    let view = |offsets: &'static [u64]| StringsView::new(offsets, b"abc").map(|view| view.len());
    assert_eq!(view(&[0, 3]), Ok(1));
    assert_eq!(view(&[0, 0, 3, 3]), Ok(3));
    assert_eq!(view(&[]), Err(TensorErrorKind::StringOffsets { index: 0 }.into()));
    assert_eq!(view(&[0]), Err(TensorErrorKind::StringOffsets { index: 0 }.into()));
    assert_eq!(view(&[1, 3]), Err(TensorErrorKind::StringOffsets { index: 0 }.into()));
    assert_eq!(view(&[0, 2]), Err(TensorErrorKind::StringOffsets { index: 1 }.into()));
    assert_eq!(view(&[0, 2, 1, 3]), Err(TensorErrorKind::StringOffsets { index: 2 }.into()));
    assert_eq!(view(&[0, 4]), Err(TensorErrorKind::StringOffsets { index: 1 }.into()));
    assert_eq!(view(&[0, u64::MAX, 3]), Err(TensorErrorKind::StringOffsets { index: 1 }.into()));
    assert_eq!(StringsView::new(&[0], b"").map(|view| view.is_empty()), Ok(true));
    let strings: Strings = ["ab", "", "c"].iter().collect();
    assert_eq!(strings.view().iter().collect::<Vec<_>>(), [&b"ab"[..], b"", b"c"]);
    assert_eq!(
        (strings.view().get(2), strings.view().get(3), strings.view().get(usize::MAX)),
        (Some(&b"c"[..]), None, None)
    );
}

#[test]
fn shapes_are_multiplied_with_care() {
    assert_eq!(element_count(&[]), Some(1));
    assert_eq!(element_count(&[2, 3, 4]), Some(24));
    assert_eq!(element_count(&[usize::MAX, 2, 0]), Some(0));
    assert_eq!(element_count(&[usize::MAX, 2]), None);
    let too_large = |data_type, shape: &'static [usize]| {
        matches!(
            TensorView::new(data_type, shape, &[]).as_ref().map_err(TensorError::kind),
            Err(TensorErrorKind::TooLarge { .. })
        )
    };
    assert!(too_large(Float, &[usize::MAX / 2, 3]), "the elements overflow");
    assert!(too_large(Double, &[usize::MAX / 4]), "the bytes overflow");
    assert!(too_large(Uint8, &[usize::MAX / 2 + 1]), "more than a buffer can hold");
    assert_eq!(Int2.byte_len(usize::MAX), Some(usize::MAX / 4 + 1));
    assert_eq!(Double.byte_len(usize::MAX / 8 + 1), None);
    assert_eq!(String.byte_len(1), None);
    let strings = StringsView::new(&[0], b"").expect("no strings");
    assert!(matches!(
        TensorView::strings(&[usize::MAX, 2], strings).as_ref().map_err(TensorError::kind),
        Err(TensorErrorKind::TooLarge { .. })
    ));
    // A view that fits in memory can still be too large in another type.
    let bits = Tensor::new(Int2, vec![0, usize::MAX], vec![]).expect("no elements");
    assert_eq!(Cast::new(Double, &at(28)).expect("Cast-28").run(&bits.view()).map(|tensor| tensor.len()), Ok(0));
}
