//! Formats durations for tables, such as `2m1s`.

use jiff::Timestamp;

/// Formats the time since `time` with one or two units, such as `119s`, `2m1s`, `3h1m`, `2d` or `2y59d`.
pub fn age(time: Timestamp, now: Timestamp) -> String {
    seconds(now.as_second() - time.as_second())
}

/// Formats seconds with one or two units. -1 becomes `0s`, because a small clock skew can cause this value. Smaller
/// numbers become `<invalid>`.
pub fn seconds(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".into();
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 8 * 365 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}
