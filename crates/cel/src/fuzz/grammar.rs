//! Generates expressions from bytes. The generated expressions call every function with arguments of the right types.

use std::sync::Arc;

use crate::functions::{self, Overload};
use crate::types::Type;

const DEPTH: usize = 5;
const LENGTH: usize = 4_000;

/// Generates an expression from the bytes. Each byte selects one alternative of the grammar. If no bytes are left,
/// the generator selects the first alternative.
pub(super) fn expression(bytes: &[u8]) -> String {
    let mut writer = Writer { bytes, text: String::new() };
    let wanted = writer.any_type();
    writer.write(&wanted, DEPTH);
    writer.text
}

struct Writer<'b> {
    bytes: &'b [u8],
    text: String,
}

impl Writer<'_> {
    fn choose(&mut self, count: usize) -> usize {
        let mut take = || {
            let (first, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            Some(usize::from(*first))
        };
        let first = take().unwrap_or(0);
        let chosen = if count > 256 { first * 256 + take().unwrap_or(0) } else { first };
        chosen.checked_rem(count).unwrap_or(0)
    }

    fn any_type(&mut self) -> Type {
        let types = [
            Type::Bool,
            Type::Int,
            Type::Uint,
            Type::Double,
            Type::String,
            Type::Bytes,
            Type::Duration,
            Type::Timestamp,
            Type::list(Type::Int),
            Type::list(Type::String),
            Type::list(Type::Double),
            Type::map(Type::String, Type::Int),
            Type::optional(Type::Int),
            Type::Dyn,
        ];
        let chosen = self.choose(types.len());
        types[chosen].clone()
    }

    fn write(&mut self, wanted: &Type, depth: usize) {
        let Some(depth) = depth.checked_sub(1).filter(|_| self.text.len() < LENGTH) else {
            return self.literal(wanted);
        };
        match self.choose(8) {
            0 => self.literal(wanted),
            1 => self.comprehension(wanted, depth),
            2 => {
                self.text.push('(');
                self.write(&Type::Bool, depth);
                self.text.push_str(" ? ");
                self.write(wanted, depth);
                self.text.push_str(" : ");
                self.write(wanted, depth);
                self.text.push(')');
            }
            _ => self.call(wanted, depth),
        }
    }

    fn call(&mut self, wanted: &Type, depth: usize) {
        let fits = |overload: &&Overload| returns(&overload.result, wanted) && !overload.for_patches;
        let callable = |name: &str| name == "@in" || !name.contains('@') && name != "_?._";
        let candidates: Vec<_> = functions::all()
            .filter(|(name, _)| callable(name))
            .flat_map(|(name, overloads)| overloads.iter().filter(fits).map(move |overload| (name, overload)))
            .collect();
        if candidates.is_empty() {
            return self.literal(wanted);
        }
        let chosen = self.choose(candidates.len());
        let (name, overload) = candidates[chosen];
        let mut known = Vec::new();
        learn(&overload.result, wanted, &mut known);
        for param in &overload.params {
            let chosen = [Type::Int, Type::String, Type::Double][self.choose(3)].clone();
            known.push(((*param).into(), chosen));
        }
        let args: Vec<_> = overload.args.iter().map(|arg| replaced(arg, &known)).collect();
        self.text.push('(');
        self.operator_or_function(name, overload.member, &args, depth);
        self.text.push(')');
    }

    fn operator_or_function(&mut self, name: &str, member: bool, args: &[Type], depth: usize) {
        if name == "@in" {
            return self.pieces(&["", " in ", ""], args, depth);
        }
        if name.contains('_') && !name.contains(|c: char| c.is_ascii_alphabetic()) {
            let pieces: Vec<_> = name.split('_').collect();
            return self.pieces(&pieces, args, depth);
        }
        let (receiver, args) = if member { args.split_at(1) } else { args.split_at(0) };
        for part in receiver {
            self.write(part, depth);
            self.text.push('.');
        }
        self.text.push_str(name);
        self.text.push('(');
        for (index, arg) in args.iter().enumerate() {
            self.text.push_str(if index == 0 { "" } else { ", " });
            self.write(arg, depth);
        }
        self.text.push(')');
    }

    fn pieces(&mut self, pieces: &[&str], args: &[Type], depth: usize) {
        for (index, piece) in pieces.iter().enumerate() {
            self.text.push_str(piece);
            if let Some(arg) = args.get(index) {
                self.write(arg, depth);
            }
        }
    }

    fn comprehension(&mut self, wanted: &Type, depth: usize) {
        let (range, macros): (Type, &[(&str, Type)]) = match wanted {
            Type::Bool => (
                Type::list(Type::Int),
                &[
                    ("all(x, ", Type::Bool),
                    ("exists(x, ", Type::Bool),
                    ("exists_one(x, ", Type::Bool),
                    ("all(i, x, ", Type::Bool),
                ],
            ),
            Type::List(items) => (
                wanted.clone(),
                &[
                    ("filter(x, ", Type::Bool),
                    ("map(x, ", (**items).clone()),
                    ("sortBy(x, ", Type::String),
                    ("transformList(i, x, ", (**items).clone()),
                ],
            ),
            Type::Map(_) => (wanted.clone(), &[("transformMap(k, x, ", Type::Int)]),
            Type::Optional(_) => {
                (wanted.clone(), &[("optMap(x, ", Type::Int), ("optFlatMap(x, ", Type::optional(Type::Int))])
            }
            _ => return self.call(wanted, depth),
        };
        let chosen = self.choose(macros.len());
        let (start, part) = &macros[chosen];
        self.write(&range, depth);
        self.text.push('.');
        self.text.push_str(start);
        self.write(part, depth);
        self.text.push(')');
    }

    fn literal(&mut self, wanted: &Type) {
        let texts: &[&str] = match wanted {
            Type::Bool => &["true", "false", "true", "false", "true", "1 / 0 > 0"],
            Type::Int => {
                &["0", "1", "-1", "2", "9223372036854775807", "-9223372036854775808", "63", "1000000", "self.n"]
            }
            Type::Uint => &["0u", "1u", "18446744073709551615u"],
            Type::Double => &[
                "0.0",
                "-0.0",
                "1.5",
                "1e308",
                "-1e308",
                "double('NaN')",
                "double('Infinity')",
                "9223372036854775808.0",
                "5e-324",
            ],
            Type::String => &[
                "''",
                "'a'",
                "'\\u00e9'",
                "'a,b,c'",
                "'%s %d %x %.3f %e'",
                "'1.2.3-rc.1+b'",
                "'10.0.0.0/8'",
                "'::1'",
                "'1Gi'",
                "'1e2147483647'",
                "'https://a.b:80/c?d=e'",
                "'2020-02-29T23:59:60+0\\u00e900'",
                "'9999-12-31T23:59:59.999999999Z'",
                "'-2562047h47m16.854775808s'",
                "'[a-z]+(x|y)*$'",
                "'('",
                "'Europe/Berlin'",
                "'+99:99'",
                "'\\x00'",
                "'abc' + self.s",
            ],
            Type::Bytes => &["b''", "b'\\xff'", "b'abc'"],
            Type::Duration => &[
                "duration('0s')",
                "duration('9223372036854775807ns')",
                "duration('-9223372036854775808ns')",
                "duration('1h1m1.5s')",
            ],
            Type::Timestamp => {
                &["timestamp('0001-01-01T00:00:00Z')", "timestamp('9999-12-31T23:59:59.999999999Z')", "timestamp(0)"]
            }
            Type::Dyn => &["self", "self.a", "self.s", "dyn(1)", "dyn('x')", "dyn([])", "dyn(null)", "self.a[5]"],
            Type::Null => &["null"],
            Type::List(items) => return self.list(&items.clone()),
            Type::Map(parts) => return self.map(&parts.clone()),
            Type::Optional(value) => {
                let value = value.clone();
                if self.choose(3) == 0 {
                    return self.text.push_str("optional.none()");
                }
                self.text.push_str("optional.of(");
                self.literal(&value);
                return self.text.push(')');
            }
            Type::Type(_) => &["int", "type(1)", "string"],
            Type::Opaque(name) | Type::Object(name) => match &**name {
                "net.IP" => &["ip('10.0.0.1')", "ip('::1')"],
                "net.CIDR" => &["cidr('10.1.2.3/8')", "cidr('::/0')", "cidr('1.2.3.4/32')"],
                "kubernetes.URL" => &["url('https://[::1]:80/a%20b?x=1&x=2')", "url('/a')"],
                "kubernetes.Quantity" => {
                    &["quantity('1.5Gi')", "quantity('-9e2147483647')", "quantity('1n')", "quantity('0e-2147483648')"]
                }
                "kubernetes.Semver" => &["semver('1.2.3')", "semver('0.0.0-a.1')"],
                "kubernetes.NamedFormat" => {
                    &["format.uri()", "format.datetime()", "format.dns1123LabelPrefix()", "format.qualifiedName()"]
                }
                _ => &["self"],
            },
            Type::Param(_) | Type::Error => &["0"],
        };
        let chosen = self.choose(texts.len());
        self.text.push_str(texts[chosen]);
    }

    fn list(&mut self, items: &Type) {
        let count = [0, 1, 3, 40][self.choose(4)];
        self.text.push('[');
        for index in 0..count {
            self.text.push_str(if index == 0 { "" } else { ", " });
            self.literal(items);
        }
        self.text.push(']');
    }

    fn map(&mut self, parts: &(Type, Type)) {
        let count = [0, 1, 3, 12][self.choose(4)];
        self.text.push('{');
        for index in 0..count {
            self.text.push_str(if index == 0 { "" } else { ", " });
            self.literal(&parts.0);
            self.text.push_str(": ");
            self.literal(&parts.1);
        }
        self.text.push('}');
    }
}

fn returns(result: &Type, wanted: &Type) -> bool {
    match (result, wanted) {
        (Type::Param(_), _) | (Type::Dyn, _) => true,
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => returns(left, right),
        (Type::Map(left), Type::Map(right)) => returns(&left.0, &right.0) && returns(&left.1, &right.1),
        _ => result == wanted,
    }
}

/// Binds the type parameters of a function so that its result type becomes `wanted`.
fn learn(result: &Type, wanted: &Type, known: &mut Vec<(Arc<str>, Type)>) {
    match (result, wanted) {
        (Type::Param(name), _) => known.push((name.clone(), wanted.clone())),
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
            learn(left, right, known);
        }
        (Type::Map(left), Type::Map(right)) => {
            learn(&left.0, &right.0, known);
            learn(&left.1, &right.1, known);
        }
        _ => {}
    }
}

fn replaced(within: &Type, known: &[(Arc<str>, Type)]) -> Type {
    match within {
        Type::Param(name) => {
            known.iter().find(|(known, _)| known == name).map_or(Type::Int, |(_, found)| found.clone())
        }
        Type::List(inner) => Type::list(replaced(inner, known)),
        Type::Optional(inner) => Type::optional(replaced(inner, known)),
        Type::Type(inner) => Type::type_of(replaced(inner, known)),
        Type::Map(parts) => Type::map(replaced(&parts.0, known), replaced(&parts.1, known)),
        _ => within.clone(),
    }
}
