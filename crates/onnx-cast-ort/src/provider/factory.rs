//! What onnxruntime makes the provider of a session from. There is one factory for each onnxruntime in the process, and
//! it lives until the process ends: onnxruntime may release a factory while sessions that use it still live.

use super::abi::{Ep, EpDevice, EpFactory, HardwareDevice, KeyValuePairs, Logger, PROVIDER_VERSION, value};
use super::claims::get_capability;
use super::compile::{compile, release_compiled};
use super::host::Host;
use super::probe::Probe;
use super::session::{Claim, Provider, UnknownClaim};
use super::stock::Release;
use crate::abi::{SessionOptions, StatusPointer};
use crate::api::Failure;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;

/// The provider's name, as sessions list it.
pub(crate) const PROVIDER_NAME: &CStr = c"OnnxCastExecutionProvider";

/// A factory; onnxruntime hands the address of the first field back.
#[repr(C)]
struct Factory {
    functions: EpFactory,
    host: Host,
    release: Release,
    probe: Probe,
}

/// The factory of each onnxruntime in the process, by the address of its table.
static FACTORIES: Mutex<Vec<(usize, &'static Factory)>> = Mutex::new(Vec::new());

// SAFETY: the functions are the same for all threads, and so is the host.
unsafe impl Sync for Factory {}

/// The factory for an onnxruntime of a version ("1.31.1").
pub(crate) fn create(host: Host, version: &str) -> *mut EpFactory {
    let mut factories = FACTORIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let address = host.api.table().addr();
    let known = factories.iter().find(|row| row.0 == address).map(|row| row.1);
    let factory = known.unwrap_or_else(|| {
        let factory: &'static Factory = Box::leak(Box::new(Factory {
            functions: functions(),
            host,
            release: Release::of(version),
            probe: Probe::new(host),
        }));
        factories.push((address, factory));
        factory
    });
    // onnxruntime's type is not const, but it only hands the pointer back.
    ptr::from_ref(factory).cast_mut().cast()
}

fn functions() -> EpFactory {
    EpFactory {
        version: PROVIDER_VERSION,
        GetName: name,
        GetVendor: vendor,
        GetSupportedDevices: supported_devices,
        CreateEp: create_provider,
        ReleaseEp: release_provider,
        GetVendorId: no_vendor_id,
        GetVersion: version,
        ValidateCompiledModelCompatibilityInfo: None,
        CreateAllocator: no_allocator,
        ReleaseAllocator: nothing_to_release,
        CreateDataTransfer: no_data_transfer,
        IsStreamAware: not_stream_aware,
        CreateSyncStreamForDevice: no_stream,
    }
}

unsafe extern "system" fn name(_: *const EpFactory) -> *const c_char {
    PROVIDER_NAME.as_ptr()
}

unsafe extern "system" fn vendor(_: *const EpFactory) -> *const c_char {
    c"onnx-cast".as_ptr()
}

unsafe extern "system" fn version(_: *const EpFactory) -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

unsafe extern "system" fn no_vendor_id(_: *const EpFactory) -> u32 {
    0
}

/// The first processor of type CPU.
unsafe extern "system" fn supported_devices(
    factory: *mut EpFactory,
    devices: *const *const HardwareDevice,
    count: usize,
    made: *mut *mut EpDevice,
    room: usize,
    made_count: *mut usize,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the factory is ours, and there are as many devices and as much room as it says.
    unsafe {
        let host = (*factory.cast::<Factory>()).host;
        made_count.write(0);
        host.status(|| {
            for index in 0..count {
                let device = *devices.add(index);
                if room > 0 && host.graphs.HardwareDevice_Type(device) == value::CPU {
                    let (metadata, options) = (ptr::null(), ptr::null());
                    host.api.check(host.providers.CreateEpDevice(factory, device, metadata, options, made))?;
                    made_count.write(1);
                    break;
                }
            }
            Ok(())
        })
    }
}

unsafe extern "system" fn create_provider(
    factory: *mut EpFactory,
    _: *const *const HardwareDevice,
    _: *const *const KeyValuePairs,
    _: usize,
    options: *const SessionOptions,
    logger: *const Logger,
    made: *mut *mut Ep,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the factory is ours, and the options live during the call.
    unsafe {
        let factory: &'static Factory = &*factory.cast::<Factory>();
        let &Factory { host, release, .. } = factory;
        host.status(|| {
            let options = host.entries(options, &option_prefix())?;
            let Asked { claim, probe } = asked(&options).map_err(Failure::node)?;
            let probes = probe.unwrap_or(!release.is_known());
            if probes {
                let level = if release.is_known() { value::INFO } else { value::WARNING };
                host.log(logger, level, &asks(release));
            }
            let probe = probes.then_some(&factory.probe);
            let provider = Provider { functions: provider_functions(), host, release, claim, probe };
            made.write(Box::into_raw(Box::new(provider)).cast());
            Ok(())
        })
    }
}

/// What the names of the provider's options begin with: onnxruntime has the provider's name there in lower case.
fn option_prefix() -> String {
    format!("ep.{}.", PROVIDER_NAME.to_string_lossy().to_ascii_lowercase())
}

/// What the options of a provider ask for.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    claim: Claim,
    /// Whether onnxruntime is asked which nodes it runs; if it is not given, where its release is not known.
    probe: Option<bool>,
}

fn asked(options: &[(String, String)]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    for (name, text) in options {
        match &**name {
            "claim" => asked.claim = text.parse().map_err(|error: UnknownClaim| error.to_string())?,
            "probe" => {
                let unknown = || format!("option `probe` is `{text}` (want `0` or `1`)");
                asked.probe = Some(["0", "1"].iter().position(|word| word == text).ok_or_else(unknown)? == 1);
            }
            _ => return Err(format!("the execution provider has no option `{name}` (want `claim` or `probe`)")),
        }
    }
    Ok(asked)
}

/// What the log says where onnxruntime is asked which nodes it runs.
fn asks(release: Release) -> String {
    let newest = Release::NEWEST;
    let asks = "it loads a model of each node to see whether onnxruntime runs it";
    if release.is_known() {
        return format!("OnnxCastExecutionProvider with probe=1: {asks}");
    }
    format!(
        "OnnxCastExecutionProvider knows onnxruntime up to {newest}, and this is {release}: {asks}, and takes its values \
         for those of {newest} (option probe=0: the nodes too)"
    )
}

fn provider_functions() -> Ep {
    Ep {
        version: PROVIDER_VERSION,
        GetName: provider_name,
        GetCapability: get_capability,
        Compile: compile,
        ReleaseNodeComputeInfos: release_compiled,
        GetPreferredDataLayout: None,
        ShouldConvertDataLayoutForOp: None,
        SetDynamicOptions: None,
        OnRunStart: None,
        OnRunEnd: None,
        CreateAllocator: None,
        CreateSyncStreamForDevice: None,
        GetCompiledModelCompatibilityInfo: None,
    }
}

unsafe extern "system" fn provider_name(_: *const Ep) -> *const c_char {
    PROVIDER_NAME.as_ptr()
}

unsafe extern "system" fn release_provider(_: *mut EpFactory, provider: *mut Ep) {
    if !provider.is_null() {
        // SAFETY: from `create_provider`, and released once.
        drop(unsafe { Box::from_raw(provider.cast::<Provider>()) });
    }
}

// The functions below are optional, but onnxruntime 1.23 and 1.31 crash where that of data transfers is null, and ask
// for none of what the others would make: the provider works in onnxruntime's memory, on the processor.

unsafe extern "system" fn no_allocator(
    _: *mut EpFactory,
    _: *const c_void,
    _: *const KeyValuePairs,
    made: *mut *mut c_void,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise. Null stands for its own allocator.
    unsafe { made.write(ptr::null_mut()) };
    ptr::null_mut()
}

unsafe extern "system" fn nothing_to_release(_: *mut EpFactory, _: *mut c_void) {}

unsafe extern "system" fn no_data_transfer(_: *mut EpFactory, made: *mut *mut c_void) -> StatusPointer {
    // SAFETY: onnxruntime's promise. Null stands for none.
    unsafe { made.write(ptr::null_mut()) };
    ptr::null_mut()
}

unsafe extern "system" fn not_stream_aware(_: *const EpFactory) -> bool {
    false
}

unsafe extern "system" fn no_stream(
    _: *mut EpFactory,
    _: *const c_void,
    _: *const KeyValuePairs,
    made: *mut *mut c_void,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise. Null stands for none.
    unsafe { made.write(ptr::null_mut()) };
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let asked = |options: &[(&str, &str)]| {
            asked(&options.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect::<Vec<_>>())
        };
        assert_eq!(asked(&[]), Ok(Asked::default()));
        let all = Asked { claim: Claim::All, probe: Some(true) };
        assert_eq!(asked(&[("claim", "all"), ("probe", "1")]), Ok(all));
        let error = "the execution provider has no option `clam` (want `claim` or `probe`)";
        assert_eq!(asked(&[("clam", "all")]), Err(error.to_owned()));
        assert!(asked(&[("claim", "some")]).is_err_and(|text| text.contains("`some`")));
        assert!(asked(&[("probe", "yes")]).is_err_and(|text| text.contains("`yes`")));
    }

    #[test]
    fn releases_of_later_are_not_known() {
        let known = |version| Release::of(version).is_known();
        assert_eq!(["1.23.2", "1.31.1", "1.32.0", "1.33.0", "2.0.0"].map(known), [true, true, true, false, false]);
        assert!(asks(Release::of("1.40.1")).contains("up to 1.32, and this is 1.40"));
    }
}
