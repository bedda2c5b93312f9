//! Functions that return parts of timestamps and durations, such as the year.

use super::{Function, Returned};
use crate::meter::Meter;
use crate::time::Civil;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |meter, args| civil(meter, args, |time, _| time.year),
        "getMonth" => |meter, args| civil(meter, args, |time, _| i64::from(time.in_cycle.month()) - 1),
        "getDayOfYear" => |meter, args| civil(meter, args, |time, _| i64::from(time.in_cycle.day_of_year()) - 1),
        "getDayOfMonth" => |meter, args| civil(meter, args, |time, _| i64::from(time.in_cycle.day()) - 1),
        "getDate" => |meter, args| civil(meter, args, |time, _| i64::from(time.in_cycle.day())),
        "getDayOfWeek" => {
            |meter, args| civil(meter, args, |time, _| time.in_cycle.weekday().to_sunday_zero_offset().into())
        }
        "getHours" => hours,
        "getMinutes" => minutes,
        "getSeconds" => seconds,
        "getMilliseconds" => milliseconds,
        _ => return None,
    })
}

/// Returns `true` if cel-go implements methods for values of this type.
pub(crate) fn is_receiver(value: &Value<'_>) -> bool {
    matches!(value, Value::String(_) | Value::Timestamp(_) | Value::Duration(_))
}

fn civil<'a>(meter: &mut Meter, args: &[Value<'a>], part: impl FnOnce(Civil, u32) -> i64) -> Returned<'a> {
    let (time, zone) = match args {
        [Value::Timestamp(time)] => (time, "UTC"),
        [Value::Timestamp(time), Value::String(zone)] => (time, &**zone),
        _ => return None,
    };
    let civil = meter.text(zone.len()).and_then(|()| time.civil(zone));
    Some(civil.map(|civil| Value::Int(part(civil, time.nanos()))))
}

fn hours<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 3_600_000_000_000))),
        _ => civil(meter, args, |time, _| time.in_cycle.hour().into()),
    }
}

fn minutes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 60_000_000_000))),
        _ => civil(meter, args, |time, _| time.in_cycle.minute().into()),
    }
}

fn seconds<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 1_000_000_000))),
        _ => civil(meter, args, |time, _| time.in_cycle.second().into()),
    }
}

fn milliseconds<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Duration(nanos)] => Some(Ok(Value::Int(nanos / 1_000_000))),
        _ => civil(meter, args, |_, nanos| i64::from(nanos) / 1_000_000),
    }
}
