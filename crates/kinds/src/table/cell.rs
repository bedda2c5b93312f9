//! The table cells of built-in kinds.

use jiff::Timestamp;
use pintle_apimachinery::object::text;
use pintle_apimachinery::selector::structured_text;
use pintle_json::Json;

use super::durations;

const SHOWN: usize = 3;

/// The table columns of a built-in kind.
pub type Table = &'static [TableColumn];

/// The names of computed columns, with the functions that compute their cells.
pub type ComputedCells = &'static [(&'static str, Cell)];

/// A table column of a built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    pub(super) name: &'static str,
    /// The JSON type of the cells in the column.
    pub(super) kind: &'static str,
    pub(super) is_wide: bool,
    /// The description of the column, with line breaks written as `\n`.
    pub(super) description: &'static str,
    /// The source of the cells, or `None` if the strategy of the kind computes the cells.
    cell: Option<Cell>,
}

impl TableColumn {
    /// Parses a column in the format that `columns.txt` in `pintle-builtin` describes.
    pub fn read(line: &'static str) -> Option<Self> {
        let (heading, source) = line.split_once(" = ")?;
        let (source, description) = source.split_once(" | ").unwrap_or((source, ""));
        let (heading, is_wide) = heading.strip_suffix('*').map_or((heading, false), |heading| (heading, true));
        let (name, kind) = heading.split_once(':').unwrap_or((heading, ""));
        let cell = if source == "computed" { None } else { Some(Cell::read(source)?) };
        Some(Self { name, kind, is_wide, description, cell })
    }

    /// Returns the name of the column if the strategy of the kind computes its cells.
    pub fn computed(&self) -> Option<&'static str> {
        self.cell.is_none().then_some(self.name)
    }

    /// Returns an object's cell in this column.
    pub fn of(&self, computed: ComputedCells, object: &Json, now: Timestamp) -> Json {
        let computed = || computed.iter().find(|(name, _)| *name == self.name).map(|(_, cell)| *cell);
        self.cell.or_else(computed).map_or(Json::Null, |cell| cell.of(object, now))
    }
}

/// The source of the cells in a column. `columns.txt` in `pintle-builtin` describes the sources. The first string in a
/// variant is the JSON pointer of a field, and the second string is the cell for an object without this field.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    Name,
    Age,
    Ready,
    Phase,
    Text(&'static str, &'static str),
    Scalar(&'static str, &'static str),
    Number(&'static str),
    Value(&'static str, &'static str),
    Boolean(&'static str),
    Size(&'static str),
    Joined(&'static str),
    AccessModes(&'static str),
    Since(&'static str, &'static str),
    Reference(&'static str),
    Labels(&'static str),
    Selector(&'static str),
    Containers(&'static str),
    Images(&'static str),
    /// The value that the function computes from the object.
    Computed(fn(&Json) -> Json),
    /// The value that the function computes from the object and the current time.
    Timed(fn(&Json, Timestamp) -> Json),
}

impl Cell {
    /// Parses the cell source of a column. Returns `None` for `computed`.
    fn read(source: &'static str) -> Option<Self> {
        let (source, absent) = source.split_once(" or ").unwrap_or((source, ""));
        let (word, pointer) = source.split_once(' ').unwrap_or((source, ""));
        Some(match (word, pointer.starts_with('/')) {
            ("name", false) => Self::Name,
            ("age", false) => Self::Age,
            ("ready", false) => Self::Ready,
            ("phase", false) => Self::Phase,
            ("text", true) => Self::Text(pointer, absent),
            ("scalar", true) => Self::Scalar(pointer, absent),
            ("number", true) => Self::Number(pointer),
            ("value", true) => Self::Value(pointer, absent),
            ("boolean", true) => Self::Boolean(pointer),
            ("size", true) => Self::Size(pointer),
            ("joined", true) => Self::Joined(pointer),
            ("modes", true) => Self::AccessModes(pointer),
            ("since", true) => Self::Since(pointer, absent),
            ("reference", true) => Self::Reference(pointer),
            ("labels", true) => Self::Labels(pointer),
            ("selector", true) => Self::Selector(pointer),
            ("containers", true) => Self::Containers(pointer),
            ("images", true) => Self::Images(pointer),
            _ => return None,
        })
    }

    /// Returns the value of this column for an object. `now` is the time to which an age refers.
    pub fn of(self, object: &Json, now: Timestamp) -> Json {
        let number = |pointer| object.integer(pointer).unwrap_or(0);
        match self {
            Self::Name => object.text("/metadata/name").into(),
            Self::Age => since(object, "/metadata/creationTimestamp", now).unwrap_or_else(|| "<unknown>".into()).into(),
            Self::Ready => format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")).into(),
            Self::Phase if object.has("/metadata/deletionTimestamp") => "Terminating".into(),
            Self::Phase => object.text("/status/phase").into(),
            Self::Text(pointer, absent) => {
                Some(object.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(absent).into()
            }
            Self::Scalar(pointer, absent) if !object.has(pointer) => absent.into(),
            Self::Scalar(pointer, _) => text(object.at(pointer)).into(),
            Self::Number(pointer) => number(pointer).into(),
            Self::Value(pointer, absent) if !object.has(pointer) => absent.into(),
            Self::Value(pointer, _) => object.at(pointer).cloned().unwrap_or_default(),
            Self::Boolean(pointer) => object.is_true(pointer).into(),
            Self::Size(pointer) => object.at(pointer).map_or(0, size).into(),
            Self::Joined(pointer) => object.texts(pointer).collect::<Vec<_>>().join(",").into(),
            Self::AccessModes(pointer) => access_modes(object, pointer).into(),
            Self::Since(pointer, absent) => since(object, pointer, now).unwrap_or_else(|| absent.into()).into(),
            Self::Reference(pointer) => {
                let reference = object.at(pointer).unwrap_or(&Json::Null);
                format!("{}/{}", reference.text("/kind"), reference.text("/name")).into()
            }
            Self::Labels(pointer) => labels(object.at(pointer)).into(),
            Self::Selector(pointer) => selector(object.at(pointer)).into(),
            Self::Containers(spec) => of_containers(object.at(spec), "/name").into(),
            Self::Images(spec) => of_containers(object.at(spec), "/image").into(),
            Self::Computed(cell) => cell(object),
            Self::Timed(cell) => cell(object, now),
        }
    }
}

fn since(object: &Json, pointer: &str, now: Timestamp) -> Option<String> {
    object.text(pointer).parse().ok().map(|time| durations::age(time, now))
}

/// Returns the number of members of an object or items of a list.
pub fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    }
}

/// Joins the first items of a list and appends the number of omitted items.
pub fn first_few(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    match more {
        _ if items.is_empty() => "<none>".into(),
        0 => items.join(","),
        more => format!("{} + {more} more...", items.join(",")),
    }
}

fn labels(labels: Option<&Json>) -> String {
    let labels = labels.and_then(Json::as_object).into_iter().flatten();
    let texts: Vec<_> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

fn selector(selector: Option<&Json>) -> String {
    let text = selector.map(structured_text).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text }
}

fn of_containers(spec: Option<&Json>, pointer: &str) -> String {
    let containers = spec.into_iter().flat_map(|spec| spec.list("/containers"));
    containers.map(|container| container.text(pointer)).collect::<Vec<_>>().join(",")
}

/// Returns the ingress addresses in the status of a load balancer.
pub fn ingress_addresses(object: &Json) -> String {
    let addresses = object.list("/status/loadBalancer/ingress").map(|ingress| match ingress.text("/ip") {
        "" => ingress.text("/hostname"),
        ip => ip,
    });
    addresses.collect::<Vec<_>>().join(",")
}

/// Formats access modes as abbreviations, in a fixed order.
fn access_modes(object: &Json, pointer: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has_mode = |mode: &str| object.list(pointer).any(|found| found.as_str() == Some(mode));
    known.iter().filter(|(mode, _)| has_mode(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
