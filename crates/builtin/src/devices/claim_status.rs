//! Validates the status of a ResourceClaim.

use std::collections::HashSet;
use std::net::IpAddr;

use pintle_apimachinery::failure::quoted;
use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::{Check, immutable};

use super::claim_errors::{
    Names, configuration_errors, driver_errors, items, keyed_items, raw_object_errors, reference_errors,
    request_name_errors, request_names, required_label,
};
use super::device_errors::binding_errors;
use super::slice_errors::pool_name_errors;
use crate::core::pod::placing;
use crate::go_struct::go_struct;
use crate::meta_conditions::condition_errors;

const MAX_CONSUMERS: usize = 256;
const NO_NEW_CONSUMERS: &str =
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
const MAX_RESULTS: usize = 32;
const MAX_CONFIGURATIONS: usize = 64;
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;
const UUID_LENGTH: usize = 36;
const NOT_NORMAL: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                          hexadecimal characters";

/// Removes the status of devices that the update deallocates. The status of a device that was never allocated stays, and
/// is an error.
pub(super) fn drop_deallocated(new: &mut Json, old: &Json) {
    let (before, after) = (allocated_devices(&old["status"]), allocated_devices(&new["status"]));
    let Some(status) = new.get_mut("status") else { return };
    let Some(devices) = status.get_mut("devices").and_then(Json::as_array_mut) else { return };
    devices.retain(|device| {
        let id = go_id(device);
        after.contains(&id) || !before.contains(&id)
    });
    if devices.is_empty() {
        status.unset("devices");
    }
}

/// Validates a new status. An allocation cannot change, but it can be removed when nothing uses the claim.
pub(super) fn status_errors(new: &Json, old: &Json) -> FieldErrors {
    let status = &new["status"];
    let is_allocated = status.has("/allocation");
    let has_consumers = status.list("/reservedFor").next().is_some();
    let has_new_consumers =
        new.has("/metadata/deletionTimestamp") && !consumers(status).is_subset(&consumers(&old["status"]));
    let check = keyed_items(Check::at(status, "status"), ("reservedFor", "uid"), MAX_CONSUMERS, |consumer| {
        consumer.required("resource").required("name").required("uid")
    });
    let allocated = allocated_devices(status);
    let check = check
        .each("devices", |device, _| device_status_errors(device, &allocated))
        .also(duplicate_devices(status))
        .refuse(has_consumers && !is_allocated, || {
            FieldError::forbidden("reservedFor", "may not be specified when `allocated` is not set")
        })
        .forbidden_if(is_allocated && has_new_consumers, "reservedFor", NO_NEW_CONSUMERS);
    if old.has("/status/allocation") {
        let changes = if is_allocated { immutable(new, old, &["status.allocation"]) } else { FieldErrors::default() };
        return check.also(changes).done();
    }
    let names = request_names(&new["spec"]["devices"]);
    check.inside("allocation", |allocation| allocation_errors(allocation, &names)).done()
}

fn consumers(status: &Json) -> HashSet<[&str; 4]> {
    let fields = ["/apiGroup", "/resource", "/name", "/uid"];
    status.list("/reservedFor").map(|consumer| fields.map(|field| consumer.text(field))).collect()
}

fn allocation_errors<'a>(allocation: Check<'a>, names: &Names<'_>) -> Check<'a> {
    allocation
        .inside("devices", |devices| {
            let devices = keyed_items(devices, ("results", ""), MAX_RESULTS, |result| result_errors(result, names));
            items(devices, "config", MAX_CONFIGURATIONS, |config| {
                let config = config.required_one_of("source", &["FromClaim", "FromClass"]);
                configuration_errors(reference_errors(config, names))
            })
        })
        .inside("nodeSelector", |selector| {
            let errors = placing::terms(selector.object(), "status.allocation.nodeSelector");
            selector.also(errors)
        })
}

fn result_errors<'a>(result: Check<'a>, names: &Names<'_>) -> Check<'a> {
    let request = result.object().text("/request");
    share_errors(binding_errors(device_name_errors(request_name_errors(result, "request", request, names))))
}

/// Validates the driver, pool and name of a device.
fn device_name_errors(device: Check<'_>) -> Check<'_> {
    let object = device.object();
    let pool = pool_name_errors(object.text("/pool"), &device.path("pool"));
    required_label(driver_errors(device, "driver", object.text("/driver")).also(pool), "device")
}

fn share_errors(device: Check<'_>) -> Check<'_> {
    let share = device.object().get("shareID").and_then(Json::as_str);
    let why = share.and_then(|share| uuid_fault(share).err());
    device.refuse(why.is_some(), || {
        FieldError::invalid_text("shareID", share.unwrap_or_default(), why.unwrap_or_default())
    })
}

/// Returns an error if a text is not a UUID with hyphens and lower-case digits. As in Go, the error is different for the
/// other forms of a UUID.
fn uuid_fault(text: &str) -> Result<(), String> {
    let fault = |why: String| Err(format!("error validating uid: {why}"));
    let is_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let (digits, has_hyphens) = match text.len() {
        UUID_LENGTH => (text.as_bytes(), true),
        32 => (text.as_bytes(), false),
        38 if text.starts_with('{') && text.ends_with('}') => (&text.as_bytes()[1..37], true),
        38 => return fault("invalid bracketed UUID format".into()),
        45 if text.as_bytes()[..9].eq_ignore_ascii_case(b"urn:uuid:") => (&text.as_bytes()[9..], true),
        45 => return fault(format!("invalid urn prefix: {}", quoted(&String::from_utf8_lossy(&text.as_bytes()[..9])))),
        length => return fault(format!("invalid UUID length: {length}")),
    };
    let is_valid = digits
        .iter()
        .enumerate()
        .all(|(at, byte)| if has_hyphens && is_hyphen(at) { *byte == b'-' } else { byte.is_ascii_hexdigit() });
    if !is_valid {
        return fault("invalid UUID format".into());
    }
    if text.len() != UUID_LENGTH || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(NOT_NORMAL.into());
    }
    Ok(())
}

fn device_status_errors<'a>(device: Check<'a>, allocated: &HashSet<String>) -> Check<'a> {
    let object = device.object();
    let id = go_id(object);
    let device = share_errors(device_name_errors(device));
    let count = object.list("/conditions").count();
    let conditions =
        if count > MAX_CONDITIONS { FieldErrors::default() } else { condition_errors(object, "conditions") };
    let conditions: Vec<_> =
        conditions.iter().map(|error| FieldError { field: device.path(&error.field), ..error.clone() }).collect();
    let device = device
        .refuse(!allocated.contains(&id), || {
            let why = format!("Invalid value: {id}: must be an allocated device in the claim");
            FieldError::new(FieldErrorType::Invalid, "", why)
        })
        .refuse(count > MAX_CONDITIONS, || FieldError::too_many("conditions", count, MAX_CONDITIONS))
        .also(conditions);
    raw_object_errors(device, "data").inside("networkData", network_errors)
}

fn network_errors(network: Check<'_>) -> Check<'_> {
    let object = network.object();
    let is_long = |field: &str, most: usize| object.text(&format!("/{field}")).len() > most;
    let network = network
        .refuse(is_long("interfaceName", MAX_INTERFACE_NAME), || {
            FieldError::too_long("interfaceName", MAX_INTERFACE_NAME)
        })
        .refuse(is_long("hardwareAddress", MAX_HARDWARE_ADDRESS), || {
            FieldError::too_long("hardwareAddress", MAX_HARDWARE_ADDRESS)
        });
    items(network, "ips", MAX_ADDRESSES, |address| {
        let field = address.path("").trim_end_matches('.').to_owned();
        let error = address_error(address.object().as_str().unwrap_or_default(), &field);
        address.also(error)
    })
}

/// Validates the address of an interface with the length of its prefix. The address may have bits after the prefix.
fn address_error(text: &str, field: &str) -> Option<FieldError> {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let (address, length) = (address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then(|| format!("{address}/{length}"))
    });
    let why = match parsed {
        None => "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".into(),
        Some(canonical) if canonical != text => format!("must be in canonical form ({canonical:?})"),
        Some(_) => return None,
    };
    Some(FieldError::invalid_text(field, text, why))
}

fn duplicate_devices(status: &Json) -> FieldErrors {
    let ids: Vec<_> = status.list("/devices").map(go_id).collect();
    let again = pintle_apimachinery::object::duplicates(ids.iter()).into_iter().enumerate();
    again
        .filter(|(_, is_duplicate)| *is_duplicate)
        .map(|(at, _)| {
            let why = format!("Duplicate value: {}", ids[at]);
            FieldError::new(FieldErrorType::Duplicate, format!("status.devices[{at}]"), why)
        })
        .collect()
}

/// Returns the ids of the allocated devices.
fn allocated_devices(status: &Json) -> HashSet<String> {
    status.list("/allocation/devices/results").map(go_id).collect()
}

/// Returns the id of a device as JSON with the names and the order of the Go fields, which errors contain.
fn go_id(device: &Json) -> String {
    let known = |key: &'static str| (key, Json::from(device.text(&format!("/{key}"))));
    let device: Json = ["driver", "pool", "device", "shareID"].map(known).into_iter().collect();
    go_struct(&device, &[("driver", "Driver"), ("pool", "Pool"), ("device", "Device"), ("shareID", "ShareID")])
}
