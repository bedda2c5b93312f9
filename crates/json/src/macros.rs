//! The `json!` macro.

/// Creates a [`Json`](crate::Json) value from JSON syntax. A value can be any expression whose type implements
/// `Serialize`. The macro borrows this expression. A key can be a literal, a name, or an expression in parentheses.
///
/// ```
/// use pintle_json::json;
///
/// let (name, finalizers, key) = ("a", vec!["b"], "kind");
/// let object = json!({"metadata": {"name": name, "finalizers": finalizers}, (key): null, "weights": [1, -2.5, true]});
/// assert_eq!(object.to_string(), r#"{"kind":null,"metadata":{"finalizers":["b"],"name":"a"},"weights":[1,-2.5,true]}"#);
/// ```
///
/// # Panics
/// Panics if an expression cannot be serialized as JSON, for example a map with lists as keys.
#[macro_export]
macro_rules! json {
    (@items $list:ident) => {};
    (@items $list:ident $value:tt $(, $($rest:tt)*)?) => {
        $list.push($crate::json!($value));
        $crate::json!(@items $list $($($rest)*)?);
    };
    (@items $list:ident $value:expr $(, $($rest:tt)*)?) => {
        $list.push($crate::json!($value));
        $crate::json!(@items $list $($($rest)*)?);
    };

    (@members $map:ident) => {};
    (@members $map:ident $key:tt : $value:tt $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::json!($value));
        $crate::json!(@members $map $($($rest)*)?);
    };
    (@members $map:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $map.insert($key, $crate::json!($value));
        $crate::json!(@members $map $($($rest)*)?);
    };

    (null) => {
        $crate::Json::Null
    };
    ([$($items:tt)*]) => {{
        #[allow(unused_mut)]
        let mut list = ::std::vec::Vec::new();
        $crate::json!(@items list $($items)*);
        $crate::Json::Array(list)
    }};
    ({$($members:tt)*}) => {{
        #[allow(unused_mut)]
        let mut map = $crate::Map::new();
        $crate::json!(@members map $($members)*);
        $crate::Json::Object(map)
    }};
    ($value:expr) => {
        $crate::to_json(&$value).expect("a value in json! is serializable as JSON")
    };
}
