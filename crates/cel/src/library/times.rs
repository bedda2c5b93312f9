//! Parts of timestamps and durations.

use jiff::civil::DateTime;

use super::{Function, Returned};
use crate::meter::Meter;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |_, args| civil(args, |time, _| i64::from(time.year())),
        "getMonth" => |_, args| civil(args, |time, _| i64::from(time.month()) - 1),
        "getDayOfYear" => |_, args| civil(args, |time, _| i64::from(time.day_of_year()) - 1),
        "getDayOfMonth" => |_, args| civil(args, |time, _| i64::from(time.day()) - 1),
        "getDate" => |_, args| civil(args, |time, _| i64::from(time.day())),
        "getDayOfWeek" => |_, args| civil(args, |time, _| i64::from(time.weekday().to_sunday_zero_offset())),
        "getHours" => hours,
        "getMinutes" => minutes,
        "getSeconds" => seconds,
        "getMilliseconds" => milliseconds,
        _ => return None,
    })
}

/// Whether values have methods of their own in cel-go.
pub(crate) fn is_receiver(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Timestamp(_) | Value::Duration(_))
}

fn civil<'a>(args: &[Value<'a>], part: impl FnOnce(DateTime, u32) -> i64) -> Returned<'a> {
    let (time, zone) = match args {
        [Value::Timestamp(time)] => (time, "UTC"),
        [Value::Timestamp(time), Value::String(zone)] => (time, &**zone),
        _ => return None,
    };
    Some(time.civil(zone).map(|civil| Value::Int(part(civil, time.nanos()))))
}

fn hours<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 3_600_000_000_000))),
        _ => civil(args, |time, _| i64::from(time.hour())),
    }
}

fn minutes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 60_000_000_000))),
        _ => civil(args, |time, _| i64::from(time.minute())),
    }
}

fn seconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 1_000_000_000))),
        _ => civil(args, |time, _| i64::from(time.second())),
    }
}

fn milliseconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 1_000_000))),
        _ => civil(args, |_, nanos| i64::from(nanos) / 1_000_000),
    }
}
