//! Columns that line up.

/// Rows under a heading, columns two spaces apart; the last column is not padded.
#[must_use]
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|h| (*h).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| {
        all.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let mut out = String::new();
    for row in &all {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            line += &format!("{cell:<width$}  ", width = width(column).unwrap_or(0));
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}
