//! The area `queue`: workqueue and ratelimit beside client-go.

use super::Area;

pub(crate) const AREA: Area =
    Area { name: "queue", about: "pintle-workqueue and pintle-ratelimit beside client-go", works: &[] };
