//! Functions for named formats.

use super::{Function, Returned};
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::opaque::named_format::FORMATS;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    macro_rules! constants {
        ($($key:literal $index:literal)*) => {
            match name {
                $(concat!("format.", $key) => Some((|_, _| Some(Ok(constant($index)))) as Function),)*
                "format.named" => Some(named),
                "validate" => Some(validate),
                _ => None,
            }
        };
    }
    constants! {
        "dns1123Label" 0 "dns1123Subdomain" 1 "dns1035Label" 2 "qualifiedName" 3 "dns1123LabelPrefix" 4
        "dns1123SubdomainPrefix" 5 "dns1035LabelPrefix" 6 "labelValue" 7 "uri" 8 "uuid" 9 "byte" 10 "date" 11
        "datetime" 12
    }
}

fn constant<'a>(index: usize) -> Value<'a> {
    Value::Opaque(Opaque::Format(&FORMATS[index]))
}

fn named<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let name = super::one_text(args)?;
    let found = FORMATS.iter().find(|format| format.key == name);
    Some(Ok(found.map_or(Value::NONE, |format| Value::some(Value::Opaque(Opaque::Format(format))))))
}

fn validate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Opaque(Opaque::Format(format)), Value::String(text)] = args else { return None };
    let faults = (format.validate)(text);
    Some(Ok(if faults.is_empty() { Value::NONE } else { Value::some(Value::strings(faults)) }))
}
