//! `serde`: types, rounding modes and backends by name, and options as a map of those that are set. Elements are in
//! `element/serde_traits.rs`.

use crate::arch::Backend;
use crate::element::DataType;
use crate::ops::CastOptions;
use crate::scalar::RoundMode;
use alloc::string::String;
use core::fmt;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! by_name {
    ($($ty:ident $parse:path;)*) => {$(
        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $parse(&String::deserialize(deserializer)?).map_err(Error::custom)
            }
        }
    )*};
}
by_name! {
    DataType str::parse::<DataType>;
    RoundMode str::parse::<RoundMode>;
    Backend Backend::by_name;
}

impl Serialize for CastOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("opset", &self.opset)?;
        if let Some(saturate) = self.saturate {
            map.serialize_entry("saturate", &saturate)?;
        }
        if let Some(round_mode) = self.round_mode {
            map.serialize_entry("round_mode", &round_mode)?;
        }
        if let Some(backend) = self.backend {
            map.serialize_entry("backend", &backend)?;
        }
        if let Some(threads) = self.threads {
            map.serialize_entry("threads", &threads)?;
        }
        map.end()
    }
}

/// Reads a map of options. Missing keys keep their defaults.
struct Options;

impl<'de> Visitor<'de> for Options {
    type Value = CastOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of cast options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CastOptions, A::Error> {
        const FIELDS: &[&str] = &["opset", "saturate", "round_mode", "backend", "threads"];
        let mut options = CastOptions::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "opset" => options.opset = map.next_value()?,
                "saturate" => options.saturate = map.next_value()?,
                "round_mode" => options.round_mode = map.next_value()?,
                "backend" => options.backend = map.next_value()?,
                "threads" => options.threads = map.next_value()?,
                other => return Err(Error::unknown_field(other, FIELDS)),
            }
        }
        Ok(options)
    }
}

impl<'de> Deserialize<'de> for CastOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Options)
    }
}
