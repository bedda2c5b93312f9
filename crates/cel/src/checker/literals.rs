//! Checks the literals of lists, maps and objects.

use super::Checker;
use super::infer::most_general;
use crate::ast::{Field, Id, Kind};
use crate::source::Issue;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn list(&mut self, id: Id) -> Type {
        let Kind::List(items) = self.ast.kind(id) else { return Type::Error };
        let mut joined = None;
        for item in items.clone() {
            let found = self.expr(item.value);
            let found = self.unwrapped(item.value, item.optional, found);
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.inference.unknown()))
    }

    pub(super) fn map(&mut self, id: Id) -> Type {
        let Kind::Map(entries) = self.ast.kind(id) else { return Type::Error };
        let (mut keys, mut values) = (None, None);
        for entry in entries.clone() {
            let found = self.expr(entry.key);
            keys = Some(self.join(keys, found));
            let found = self.expr(entry.value);
            let found = self.unwrapped(entry.value, entry.optional, found);
            values = Some(self.join(values, found));
        }
        match keys.zip(values) {
            Some((keys, values)) => Type::map(keys, values),
            None => Type::map(self.inference.unknown(), self.inference.unknown()),
        }
    }

    /// Returns the inner type of an optional item such as `?a` in a list or map literal.
    fn unwrapped(&mut self, id: Id, optional: bool, found: Type) -> Type {
        match found {
            Type::Optional(inner) if optional => (*inner).clone(),
            found => {
                if optional && found != Type::Dyn {
                    self.mismatch(id, &Type::optional(found.clone()), &found);
                }
                found
            }
        }
    }

    /// Returns the item type of a list literal after adding an item of type `found`. A later check reports lists of
    /// mixed types.
    fn join(&mut self, joined: Option<Type>, found: Type) -> Type {
        match joined {
            None => found,
            Some(joined) if self.inference.assignable(&joined, &found) => most_general(&joined, &found),
            Some(_) => Type::Dyn,
        }
    }

    pub(super) fn object(&mut self, id: Id) -> Type {
        let Kind::Struct { name, fields } = self.ast.kind(id) else { return Type::Error };
        let (name, fields) = (name.clone(), fields.clone());
        let plain = name.strip_prefix('.').unwrap_or(&name);
        let result = match self.lookup(plain) {
            None => return self.undeclared(id, &name),
            Some(Type::Error) => Type::Error,
            Some(Type::Type(inner)) if matches!(*inner, Type::Object(_)) => (*inner).clone(),
            Some(Type::Type(inner)) => {
                self.report(id, format!("'{}' is not a message type", inner.name()));
                Type::Error
            }
            Some(other) => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.ast.exprs[id as usize].kind = Kind::Struct { name: plain.into(), fields: fields.clone() };
        for field in fields {
            self.initialized(plain, &field);
        }
        result
    }

    fn initialized(&mut self, object: &str, field: &Field) {
        let found = self.expr(field.value);
        let declared = if self.environment.has_object(object) {
            self.environment.field_type(object, &field.name)
        } else {
            Some(Type::Error)
        };
        let Some(declared) = declared else {
            self.issues.push(Issue::new(field.at, format!("undefined field '{}'", field.name)));
            return;
        };
        let found = self.unwrapped(field.value, field.optional, found);
        if !self.inference.assignable(&declared, &found) {
            let (declared, found) = (declared.in_messages(), found.in_messages());
            let message =
                format!("expected type of field '{}' is '{declared}' but provided type is '{found}'", field.name);
            self.issues.push(Issue::new(field.at, message));
        }
    }
}
