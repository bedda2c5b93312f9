//! The query of `/debug.json`.

use percent_encoding::percent_decode_str;

#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) controller: String,
    pub(super) key: String,
}

/// Returns the controller and the key from the query, or `None` if the query contains neither. Ignores other
/// parameters.
///
/// # Errors
///
/// Returns an error that names the missing parameter.
pub(super) fn parse(query: &str) -> Result<Option<Wanted>, String> {
    match (parameter(query, "controller"), parameter(query, "key")) {
        (None, None) => Ok(None),
        (Some(controller), Some(key)) => Ok(Some(Wanted { controller, key })),
        (Some(_), None) => Err("the parameter \"key\" is missing: add &key=namespace/name".into()),
        (None, Some(_)) => Err("the parameter \"controller\" is missing: add &controller=name".into()),
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value).next()?;
    // A plus sign represents a space, as in HTML forms.
    Some(percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_parameters_are_decoded() {
        let wanted = |controller: &str, key: &str| Ok(Some(Wanted { controller: controller.into(), key: key.into() }));
        assert_eq!(parse("key=team-a%2Fblog&x=1&controller=web+site%2B"), wanted("web site+", "team-a/blog"));
        assert_eq!(parse("controller=a&key=team-a/blog&key=other"), wanted("a", "team-a/blog"));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("verbose&&=&other=1"), Ok(None));
        assert_eq!(parse("controller=%ff&key=x"), wanted("\u{fffd}", "x"));
    }

    #[test]
    fn error_names_the_parameter() {
        assert!(parse("controller=a").unwrap_err().contains("\"key\" is missing"));
        assert!(parse("key=a").unwrap_err().contains("\"controller\" is missing"));
    }
}
