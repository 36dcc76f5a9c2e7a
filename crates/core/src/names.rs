//! Names of engines in messages.

/// Number of engines that are named before the rest is counted.
const MOST: usize = 5;

/// Engines by name, in a list of limited length.
pub(crate) fn engines(names: &[String]) -> String {
    let shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        1 => format!("engine {shown}"),
        count if count <= MOST => format!("{count} engines ({shown})"),
        count => format!("{count} engines ({shown} and {} more)", count - MOST),
    }
}
