//! Every value of every source type of 16 bits or fewer, to each numeric type, in every version and with every setting
//! of the attributes, on every backend of this machine, against the exact oracle; and for the wider sources the values
//! at and near ties. (`cargo prove` casts all values of the 32-bit sources.)

use testkit::library::values;

#[test]
fn every_value_of_16_bits_or_fewer() {
    let compared = values::every_value_of_16_bits_or_fewer();
    println!("{compared} values compared");
}

#[test]
fn ties_specials_and_random_values_of_wider_sources() {
    let compared = values::ties_specials_and_random_values_of_wider_sources();
    println!("{compared} values compared");
}
