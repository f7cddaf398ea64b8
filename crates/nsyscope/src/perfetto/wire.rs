//! The wire format of protocol buffers, as far as a trace needs it
//! (<https://protobuf.dev/programming-guides/encoding/>).

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.raw(u64::from(field << 3 | wire_type));
    }

    pub(super) fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, 0);
        self.raw(value);
        self
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn double(&mut self, field: u32, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.delimited(field, text.as_bytes())
    }

    pub(super) fn message(&mut self, field: u32, message: &Message) -> &mut Self {
        self.delimited(field, &message.bytes)
    }

    fn delimited(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.tag(field, 2);
        self.raw(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_format_describes_them() {
        let mut message = Message::default();
        // The examples of the documentation: 150 in field 1, "testing" in field 2.
        message.uint(1, 150).text(2, "testing");
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing");
        message.clear();
        message.uint(1, u64::MAX).fixed64(48, 1);
        assert_eq!(message.bytes()[..11], *b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        assert_eq!(message.bytes()[11..], *b"\x81\x03\x01\0\0\0\0\0\0\0");
    }
}
