//! Prints the names of the backends that this machine can run, best first.

fn main() {
    onnx_cast::available_backends().for_each(|backend| println!("{}", backend.name()));
}
