//! Other forms in which a server gives its objects: their metadata alone, and tables.

use http::header::ACCEPT;
use pintle_meta::{ApiError, ListMeta, ListOptions, PartialObject, TypeMeta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Api;
use super::options::with_list_options;
use crate::Error;

/// In which form objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Whole,
    Metadata,
}

// A server that does not know the form gives whole objects, of which the rest is skipped.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

impl Representation {
    /// What to accept for an object or for the events of some; none for the client's own.
    pub(super) fn object(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Metadata => Some(METADATA),
        }
    }

    pub(super) fn list(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Metadata => Some(METADATA_LIST),
        }
    }
}

/// Objects as `kubectl get` shows them: the server chooses the columns and fills them in.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ListOptions};
/// use pintle_restreq::Api;
///
/// async fn show<T>(api: &Api<T>) -> Result<(), ApiError> {
///     let table = api.table(&ListOptions::default()).await?;
///     let shown: Vec<bool> = table.columns.iter().map(|column| column.priority == 0).collect();
///     for row in &table.rows {
///         let cells = row.cells.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell.to_string());
///         println!("{}", cells.collect::<Vec<_>>().join("  "));
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Table {
    /// The list's own metadata: tables come in pages as lists do.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// What the cells of each row mean, in their order. The second and further pages have none.
    #[serde(default, rename = "columnDefinitions", deserialize_with = "or_empty")]
    pub columns: Vec<TableColumn>,
    /// One for each object, in the order of their keys.
    #[serde(default, deserialize_with = "or_empty")]
    pub rows: Vec<TableRow>,
}

/// What a cell of a [`Table`] means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TableColumn {
    /// Its head.
    #[serde(default)]
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `array`, as in OpenAPI.
    #[serde(default, rename = "type")]
    pub column_type: String,
    /// More on the type, such as `name` for the column that names the object, or `date`.
    #[serde(default)]
    pub format: String,
    /// For humans.
    #[serde(default)]
    pub description: String,
    /// 0 for what is always shown; the higher, the rarer.
    #[serde(default)]
    pub priority: i32,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct TableRow {
    /// As many as there are columns.
    #[serde(default, deserialize_with = "or_empty")]
    pub cells: Vec<Value>,
    /// The object that it shows, its metadata alone.
    #[serde(default, deserialize_with = "or_empty")]
    pub object: PartialObject,
}

impl<T> Api<T> {
    /// The same objects, their metadata alone: that is all that the server sends, of lists and watches too, and all that an informer
    /// on it holds. client-go's metadata client.
    ///
    /// It reads, patches and deletes. To create or replace objects through it is refused without I/O: it would empty them.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, ListOptions};
    /// use pintle_restreq::Api;
    ///
    /// async fn owners<T>(api: &Api<T>) -> Result<usize, ApiError> {
    ///     let objects = api.metadata_only().list(&ListOptions::default()).await?.items;
    ///     Ok(objects.iter().map(|object| object.metadata.owner_references.len()).sum())
    /// }
    /// ```
    pub fn metadata_only(&self) -> Api<PartialObject> {
        Api { representation: Representation::Metadata, ..self.cast() }
    }

    /// One page of objects as a table.
    ///
    /// # Errors
    ///
    /// However a request fails. Not acceptable: the server has no tables for this resource.
    pub async fn table(&self, options: &ListOptions) -> Result<Table, ApiError> {
        let request = self.on_collection(self.client.get().header(ACCEPT.as_str(), TABLE));
        let request = with_list_options(request, options);
        let response = request.send().await?;
        let types: TypeMeta = response.clone().into()?;
        if types.kind != "Table" {
            let message = format!("expected a Table, got kind {:?}", types.kind);
            return Err(Error::Decode { request: request.line(), message: message.into() }.into());
        }
        Ok(response.into()?)
    }
}

/// Go writes an empty list as `null`.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
