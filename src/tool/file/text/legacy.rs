//! Encodings older than UTF-8: which one a file is in, where that can be told with confidence.
//!
//! A guess alone is not enough: the wrong one shows a model words that are not there. So the guess of the detector holds
//! only where nothing speaks against it: the file is not UTF-8 with a few bad bytes, there is enough to judge by, what
//! it says are letters where letters may be, and encoding it again gives the same bytes.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, EncoderResult, Encoding, GB18030, GBK, ISO_2022_JP, REPLACEMENT,
    SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, X_USER_DEFINED,
};

use super::utf16::is_control;

/// Bytes above ASCII below which there is too little to judge by.
const MIN_EVIDENCE_BYTES: usize = 4;

/// Bytes that are looked at for a guess: enough to be sure, and few enough to be quick.
const GUESS_BYTES: usize = 256 << 10;

/// Letters beyond ASCII, signs included, below which a text of an alphabet is not recognised.
const MIN_GOOD_LETTERS: usize = 3;

/// Letters beyond ASCII in a row that a word of the Latin alphabet has at most.
const MAX_RUN: usize = 4;

/// Encodings of two bytes for a character.
const WIDE: [&Encoding; 6] = [GBK, GB18030, BIG5, EUC_JP, EUC_KR, SHIFT_JIS];

/// Characters by which it is judged whether they are common ones.
const COMMON_SAMPLE: usize = 2000;

/// Common ones among a hundred that there must be.
const MIN_COMMON_PERCENT: usize = 70;

/// Characters beyond ASCII among a hundred that must be where such characters are expected.
const MIN_PLAUSIBLE_PERCENT: usize = 90;

/// The encoding of bytes that are not UTF-8 and their text, where there is no doubt.
pub(super) fn recognise(bytes: &[u8]) -> Option<(&'static Encoding, String)> {
    let start = bytes.iter().position(|byte| !byte.is_ascii())?;
    let n_evidence = bytes[start..]
        .iter()
        .filter(|byte| !byte.is_ascii())
        .take(MIN_EVIDENCE_BYTES)
        .count();
    if n_evidence < MIN_EVIDENCE_BYTES || is_damaged_utf8(&bytes[start..]) {
        return None;
    }
    let guess = guess(bytes)?;
    // What GBK can't give back may be in its extension.
    let candidates = [Some(guess), (guess == GBK).then_some(GB18030)];
    candidates.into_iter().flatten().find_map(|encoding| {
        let text = decode(encoding, bytes)?;
        is_plausible(encoding, &text).then_some((encoding, text))
    })
}

/// What the bytes look most like, sure or not.
pub(super) fn guess(bytes: &[u8]) -> Option<&'static Encoding> {
    // The detector passes over leading ASCII by itself, but a sample must hold what is to be judged.
    let start = bytes.iter().position(|byte| !byte.is_ascii())?;
    let from = start.saturating_sub(GUESS_BYTES / 2);
    let sample = &bytes[from..bytes.len().min(from + GUESS_BYTES)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, false);
    let guess = detector.guess(None, Utf8Detection::Deny);
    is_stateless(guess).then_some(guess)
}

/// Encodings whose characters stand for the same bytes wherever they stand, so that a file can be spliced.
fn is_stateless(encoding: &'static Encoding) -> bool {
    ![
        UTF_8,
        UTF_16BE,
        UTF_16LE,
        ISO_2022_JP,
        REPLACEMENT,
        X_USER_DEFINED,
    ]
    .contains(&encoding)
}

/// The text, if it stands for exactly these bytes.
fn decode(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    let again = encode(encoding, &text).ok()?;
    (again == bytes && !text.contains(is_control)).then(|| text.into_owned())
}

/// Encodes exactly.
///
/// # Errors
/// The first character that the encoding lacks.
pub(super) fn encode(encoding: &'static Encoding, text: &str) -> Result<Vec<u8>, char> {
    let mut encoder = encoding.new_encoder();
    let room = encoder
        .max_buffer_length_from_utf8_without_replacement(text.len())
        .unwrap_or(text.len());
    let mut bytes = Vec::with_capacity(room);
    match encoder
        .encode_from_utf8_to_vec_without_replacement(text, &mut bytes, true)
        .0
    {
        EncoderResult::Unmappable(c) => Err(c),
        EncoderResult::InputEmpty | EncoderResult::OutputFull => Ok(bytes),
    }
}

/// How many bytes of UTF-8 characters there are for a bad one in a file that is UTF-8 with bad bytes in it. In other
/// encodings some characters look like UTF-8 too, but fewer.
const DAMAGED_UTF8_RATIO: usize = 3;

/// What is beyond ASCII is mostly UTF-8: a file with bad bytes in it, not one in another encoding.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let (mut n_good, mut n_bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        n_good += chunk
            .valid()
            .bytes()
            .filter(|byte| !byte.is_ascii())
            .count();
        n_bad += chunk.invalid().len();
    }
    n_good >= n_bad * DAMAGED_UTF8_RATIO
}

/// Characters beyond ASCII are those of a text in the encoding, at places where they occur.
fn is_plausible(encoding: &'static Encoding, text: &str) -> bool {
    if WIDE.contains(&encoding) {
        return is_plausible_east_asian(encoding, text);
    }
    let (mut n_all, mut n_good) = (0, 0);
    let mut run = Run::default();
    let mut before = ' ';
    // The space ends the last run.
    for c in text.chars().chain([' ']) {
        if is_latin(c) {
            run.push(before, c);
        } else {
            let (n, is_good) = run.end(c);
            n_all += n;
            n_good += if is_good { n } else { 0 };
            if !c.is_ascii() {
                n_all += 1;
                n_good += usize::from(
                    is_symbol(c) || is_mark(c) || c.is_alphabetic() && is_cased(before, c),
                );
            }
        }
        before = c;
    }
    n_good >= MIN_GOOD_LETTERS && n_good * 100 >= n_all * MIN_PLAUSIBLE_PERCENT
}

/// Letters beyond ASCII of the Latin alphabet in a row.
#[derive(Default)]
struct Run {
    n: usize,
    before: char,
    is_miscased: bool,
}

impl Run {
    fn push(&mut self, before: char, c: char) {
        if self.n == 0 {
            self.before = before;
        }
        self.n += 1;
        self.is_miscased |= !is_cased(before, c);
    }

    /// How many letters count, and whether they are part of a word: few in a row, beside plain ones. One that is a word
    /// by itself says nothing.
    fn end(&mut self, after: char) -> (usize, bool) {
        let run = std::mem::take(self);
        if run.n == 1 && run.before.is_whitespace() && after.is_whitespace() {
            return (0, true);
        }
        let in_word = run.before.is_ascii_alphabetic() || after.is_ascii_alphabetic();
        (run.n, in_word && run.n <= MAX_RUN && !run.is_miscased)
    }
}

fn is_plausible_east_asian(encoding: &'static Encoding, text: &str) -> bool {
    let (mut n_all, mut n_good, mut n_common) = (0, 0, 0);
    for c in text.chars().filter(|c| !c.is_ascii()) {
        n_all += 1;
        n_good += usize::from(is_east_asian(c) || is_symbol(c));
        n_common += usize::from(n_all <= COMMON_SAMPLE && is_common(encoding, c));
    }
    n_good * 100 >= n_all * MIN_PLAUSIBLE_PERCENT
        && n_common * 100 >= n_all.min(COMMON_SAMPLE) * MIN_COMMON_PERCENT
}

/// Each of these standards has its signs and syllables in a few rows and its characters in the order of how common they
/// are; bytes that mean something else fall anywhere.
fn is_common(encoding: &'static Encoding, c: char) -> bool {
    let Ok(bytes) = encode(encoding, c.encode_utf8(&mut [0; 4])) else {
        return false;
    };
    let &[first, second] = bytes.as_slice() else {
        return false;
    };
    match encoding {
        e if e == GBK || e == GB18030 => {
            matches!(first, 0xA1..=0xA3 | 0xB0..=0xD7) && second >= 0xA1
        }
        e if e == BIG5 => matches!(first, 0xA1..=0xC6),
        e if e == EUC_KR => matches!(first, 0xA1..=0xA3 | 0xB0..=0xC8) && second >= 0xA1,
        e if e == EUC_JP => matches!(first, 0xA1..=0xA5 | 0xB0..=0xCF),
        _ => matches!(first, 0x81..=0x83 | 0x88..=0x97),
    }
}

/// No capital behind a small letter.
fn is_cased(before: char, c: char) -> bool {
    !(before.is_lowercase() && c.is_uppercase())
}

/// Letters beyond ASCII of the Latin alphabet.
fn is_latin(c: char) -> bool {
    matches!(c, '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}') && c.is_alphabetic()
}

/// Vowel signs and the like, which are no letters by themselves.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{64B}'..='\u{65F}' | '\u{E31}'..='\u{E5B}')
}

/// Signs that texts in all languages hold.
fn is_symbol(c: char) -> bool {
    matches!(c, '\u{A0}'..='\u{BF}' | '×' | '÷' | '\u{2010}'..='\u{2044}' | '\u{20AC}' | '\u{2116}' | '\u{2122}'
        | '\u{2190}'..='\u{21FF}' | '\u{2200}'..='\u{22FF}' | '\u{2500}'..='\u{26FF}')
}

fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{312F}' | '\u{3130}'..='\u{318F}' | '\u{31F0}'..='\u{33FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use encoding_rs::{KOI8_U, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253};

    use super::*;

    #[test]
    fn told_where_there_is_no_doubt() {
        for (encoding, text) in [
            (GBK, "# 测试\nadd = 1\n"),
            (
                GBK,
                "// 这个函数返回两个数的和，价格为€5\nint add(int a, int b);\n",
            ),
            (
                SHIFT_JIS,
                "// この関数は二つの数を足す。\r\nint add(int a, int b);\r\n",
            ),
            (EUC_JP, "# これは日本語のコメントです\nx = 1\n"),
            (EUC_KR, "# 이것은 한국어 주석입니다\nx = 1\n"),
            (BIG5, "# 這個函式會傳回兩個數字的總和\nx = 1\n"),
            (
                WINDOWS_1252,
                "Der Schl\u{fc}ssel h\u{e4}ngt \u{fc}ber der T\u{fc}r, Gr\u{f6}\u{df}e 5 \u{20ac}\n",
            ),
            (
                WINDOWS_1252,
                "L'\u{e9}t\u{e9}, la for\u{ea}t \u{e9}tait tr\u{e8}s calme \u{e0} No\u{eb}l\n",
            ),
            (WINDOWS_1251, "# Привет, это комментарий\nx = 1\n"),
            (KOI8_U, "# Привет, это комментарий\nx = 1\n"),
            (WINDOWS_1250, "Příliš žluťoučký kůň úpěl ďábelské ódy\n"),
            (WINDOWS_1253, "# Αυτό είναι ένα σχόλιο στα ελληνικά\n"),
        ] {
            let bytes = encode(encoding, text).unwrap();
            assert_eq!(
                recognise(&bytes),
                Some((encoding, text.to_owned())),
                "guess: {:?}",
                guess(&bytes)
            );
        }
    }

    #[test]
    fn in_doubt_it_is_no_text() {
        for bytes in [
            &b"abc\n\xFF"[..],
            b"abc\xFFdef\xFF\n\xFF\xFF",
            b"\xFF\xFE\xFD\xFC\xFB\xFA",
            b"\x80\x81\x82\x83\x84\x85\x86",
            b"%PDF-1.4\n%\xE2\xE3\xCF\xD3\n1 0 obj",
            // UTF-8 with a byte too many, as a careless program leaves it.
            "Grüße aus München, schöne Straße \u{e9}"
                .as_bytes()
                .split_last()
                .unwrap()
                .1,
            b"caf\xE9",
            b"\x1b\x01\xB2\xE2\xCA\xD4",
        ] {
            assert_eq!(recognise(bytes), None, "{bytes:?}: {:?}", guess(bytes));
        }
    }

    #[test]
    fn characters_an_encoding_lacks_are_named() {
        assert_eq!(encode(GBK, "a🌍"), Err('🌍'));
        assert_eq!(encode(WINDOWS_1252, "naïve “x”").unwrap().len(), 9);
    }
}
