//! Columns that line up, whatever colours are in them.

use super::style::{Style, Tone};

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// Plain text.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: None }
    }

    /// Text in a tone.
    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Some(tone) }
    }
}

/// The rows under their headings, one line each. The last column is not padded.
pub(crate) fn table(headings: &[&str], rows: &[Vec<Cell>], style: Style) -> String {
    let head: Vec<Cell> = headings.iter().map(|heading| Cell::toned(Tone::Dim, *heading)).collect();
    let all: Vec<&Vec<Cell>> = std::iter::once(&head).chain(rows).collect();
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max();
    let widths: Vec<usize> = (0..headings.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in all {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(&cell.tone.map_or_else(|| cell.text.clone(), |tone| style.paint(tone, &cell.text)));
            if column + 1 < row.len() {
                let pad = widths.get(column).copied().unwrap_or(0).saturating_sub(cell.text.chars().count());
                line.push_str(&" ".repeat(pad + 2));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec![Cell::plain("a"), Cell::toned(Tone::Good, "exited 0"), Cell::plain("true")],
            vec![Cell::plain("bbb"), Cell::plain("running"), Cell::plain("")],
        ];
        let text = table(&["ID", "STATE", "COMMAND"], &rows, Style::of_stdout());
        assert_eq!(text, "ID   STATE     COMMAND\na    exited 0  true\nbbb  running\n");
    }
}
