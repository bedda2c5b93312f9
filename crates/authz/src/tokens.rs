//! Reads static bearer tokens in kube-apiserver's CSV format, `token,user,uid[,"group1,group2"]`.

use pintle_apimachinery::request::user::User;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Static bearer tokens and their users.
#[derive(Clone, Default)]
pub struct Tokens(HashMap<String, User>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens([{} redacted])", self.0.len())
    }
}

/// The reason why a token file is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The operating system cannot read the token file.
    #[error("cannot read the token file {}: {cause}", .path.display())]
    Unreadable {
        /// The path of the token file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        cause: io::Error,
    },
    /// A line has an unclosed quote, or does not have all of the required columns token, user and uid.
    #[error("{}, line {line}: expected token,user,uid[,\"group1,group2\"]", .path.display())]
    Line {
        /// The path of the token file.
        path: PathBuf,
        /// The line number in the token file, starting at 1.
        line: usize,
    },
}

impl Tokens {
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| TokenFileError::Unreadable { path: path.to_owned(), cause })?;
        Self::parse(&text).map_err(|line| TokenFileError::Line { path: path.to_owned(), line })
    }

    /// Parses a token file. Returns the number of the first invalid line as an error.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut tokens = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let columns = columns(line).ok_or(number + 1)?;
            let [token, name, uid, groups @ ..] = &columns[..] else { return Err(number + 1) };
            if token.is_empty() || name.is_empty() {
                return Err(number + 1);
            }
            let groups = groups.first().map(String::as_str).unwrap_or_default().split(',');
            let groups = groups.map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, extra: BTreeMap::new() };
            tokens.insert(token.clone(), user);
        }
        Ok(Self(tokens))
    }

    pub fn user(&self, token: &str) -> Option<&User> {
        self.0.get(token)
    }

    pub fn insert(&mut self, token: &str, user: User) {
        self.0.insert(token.into(), user);
    }
}

/// Splits a line into columns and removes the quotes. Returns `None` if a quote is not closed.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                columns.last_mut()?.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => columns.last_mut()?.push(c),
        }
    }
    let columns = columns.iter().map(|column| column.trim().to_owned()).collect();
    (!quoted).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_is_csv_with_quoted_groups() {
        let tokens = Tokens::parse("t1,admin,u1,\"system:masters,ops\"\n\n# comment\nt2,bob,u2\n").unwrap();
        assert_eq!(tokens.user("t1").unwrap().groups[..], ["system:masters", "ops"]);
        assert_eq!(tokens.user("t2").unwrap().name, "bob");
        assert!(tokens.user("t3").is_none());
    }

    #[test]
    fn invalid_line_is_reported_by_its_number() {
        for (text, line) in [("t1,admin\n", 1), ("t1,a,u\n,b,u\n", 2), ("t1,a,u,\"g\n", 1)] {
            assert_eq!(Tokens::parse(text).err(), Some(line), "{text:?}");
        }
    }
}
