//! Which characters of output never stand in words of ours.

/// Control characters, and those that are made to reorder text, to hide in it or to carry unseen text.
pub fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}
