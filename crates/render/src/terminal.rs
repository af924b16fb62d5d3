//! What the sequences of a terminal do to the screen; those that ask, set, paste or colour do nothing.

use vte::{Params, Perform};

use crate::character::width;
use crate::progress::{Progress, Said};
use crate::render::Line;
use crate::screen::Screen;

/// How often one sequence may repeat a character; more is not a picture but a flood.
const REPEAT_MAX: u16 = 512;

/// The screen in the hand of the parser.
pub(crate) struct Terminal<'a> {
    pub(crate) screen: &'a mut Screen,
    pub(crate) progress: &'a mut Option<Progress>,
    pub(crate) last: &'a mut char,
    pub(crate) out: &'a mut dyn FnMut(Line<'_>),
}

impl Perform for Terminal<'_> {
    #[inline]
    fn print(&mut self, c: char) {
        // A control of this range that came in two pieces is given as a character.
        let c = if matches!(c, '\u{80}'..='\u{9f}') { char::REPLACEMENT_CHARACTER } else { c };
        if let Some(width) = width(c) {
            *self.last = c;
            self.screen.put(c, width, self.out);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\x08' => self.screen.backspace(),
            b'\t' => self.screen.tab(),
            b'\r' => self.screen.carriage_return(),
            // The renderer takes newlines out; these two only move.
            b'\x0b' | b'\x0c' => self.screen.next_row(self.out),
            // A byte of this range that comes alone is not UTF-8.
            0x80..=0x9f => self.print(char::REPLACEMENT_CHARACTER),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let mut numbers = params.iter().map(|param| param.first().copied().unwrap_or(0));
        let (first, second) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match intermediates {
            b"" => self.control(action, first, second),
            b"?" if matches!(action, 'h' | 'l') => {
                let modes = params.iter().filter_map(|param| param.first());
                for _ in modes.filter(|mode| matches!(**mode, 47 | 1047 | 1049)) {
                    self.screen.switch_screen(action == 'h', self.out);
                }
            }
            b"?" if action == 'J' => self.screen.erase_on_screen(first, self.out),
            b"?" if action == 'K' => self.screen.erase_in_row(first),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            (b"", b'7') => self.screen.save_cursor(),
            (b"", b'8') => self.screen.restore_cursor(),
            (b"", b'D') => self.screen.down_or_new(self.out),
            (b"", b'E') => self.screen.next_row(self.out),
            (b"", b'M') => self.screen.up_or_new(),
            (b"", b'c') => {
                self.screen.switch_screen(false, self.out);
                self.screen.finish_screen(self.out);
            }
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _bell_terminated: bool) {
        match Progress::of_osc(params) {
            Some(Said::Progress(progress)) => *self.progress = Some(progress),
            Some(Said::Nothing) => *self.progress = None,
            None => {}
        }
    }
}

impl Terminal<'_> {
    fn control(&mut self, action: char, first: u16, second: u16) {
        let count = usize::from(first.max(1));
        let screen = &mut *self.screen;
        match action {
            'A' => {
                screen.guess_by_rows(count, self.out);
                screen.up(count);
            }
            'B' | 'e' => screen.down(count),
            'C' | 'a' => screen.right(count),
            'D' => screen.left(count),
            'E' => {
                screen.down(count);
                screen.carriage_return();
            }
            'F' => {
                screen.guess_by_rows(count, self.out);
                screen.up(count);
                screen.carriage_return();
            }
            'G' | '`' => screen.go_to_column(count - 1),
            'H' | 'f' => screen.address(count - 1, usize::from(second.max(1)) - 1, self.out),
            'd' => screen.address_row(count - 1, self.out),
            'J' => {
                screen.guess_by_length(self.out);
                screen.erase_on_screen(first, self.out);
            }
            'K' => {
                screen.guess_by_length(self.out);
                screen.erase_in_row(first);
            }
            'L' => screen.insert_rows(count),
            'M' => screen.delete_rows(count),
            'P' => screen.delete_cells(count),
            '@' => screen.insert_cells(count),
            'X' => screen.erase_cells(count),
            'S' => screen.scroll_up(count, self.out),
            'T' if second == 0 => screen.scroll_down(count),
            'r' => screen.set_region(count - 1, usize::from(if second == 0 { u16::MAX } else { second }) - 1, self.out),
            's' => screen.save_cursor(),
            'u' => screen.restore_cursor(),
            'b' => {
                for _ in 0..first.clamp(1, REPEAT_MAX) {
                    self.print(*self.last);
                }
            }
            _ => {}
        }
    }
}
