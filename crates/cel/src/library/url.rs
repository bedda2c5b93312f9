//! Functions for URLs.

use std::sync::Arc;

use super::{Function, Returned, one_text};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::opaque::url::{Url, parse_request, parse_url, refusal};
use crate::value::{Entries, Key, Text, Value};

/// The units of work for decoding a byte of a URL.
const UNESCAPE: u64 = 4;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "url" => url,
        "isURL" => is_url,
        "getScheme" => |_, args| part(args, |url| &url.scheme),
        "getHost" => |_, args| part(args, |url| &url.host),
        "getHostname" => |_, args| part(args, |url| &url.hostname),
        "getPort" => |_, args| part(args, |url| &url.port),
        "getEscapedPath" => |_, args| part(args, |url| &url.escaped_path),
        "getQuery" => query,
        _ => return None,
    })
}

fn one<'v>(args: &'v [Value<'_>]) -> Option<&'v Url> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Some(url),
        _ => None,
    }
}

fn part<'a>(args: &[Value<'a>], part: impl FnOnce(&Url) -> &Arc<str>) -> Returned<'a> {
    one(args).map(|url| Ok(Value::string(part(url).clone())))
}

fn is_url<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let text = one_text(args)?;
    let counted = meter.work((text.len() as u64).saturating_mul(UNESCAPE));
    Some(counted.map(|()| Value::Bool(parse_request(text).is_ok())))
}

fn url<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let text = one_text(args)?;
    let context = "URL parse error during conversion from string";
    Some(match parse_url(text) {
        Ok(url) => Ok(Value::Opaque(Opaque::Url(url.into()))),
        Err(reason) => Err(Failure::new(format!("{context}: {}", refusal(text, &reason)))),
    })
}

fn query<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let url = one(args)?;
    let counted = meter.work((url.query.len() as u64).saturating_mul(UNESCAPE)).and_then(|()| {
        let pairs = url.query.split('&').count();
        meter.items(pairs.saturating_mul(4))
    });
    if let Err(failure) = counted {
        return Some(Err(failure));
    }
    let mut entries = Entries::default();
    for (name, values) in url.query_values() {
        entries.set(Key::String(Text::Owned(name.into())), Value::strings(values));
    }
    Some(Ok(Value::Map(entries.into())))
}
