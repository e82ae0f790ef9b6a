package codec

import "sync"

// maxPooled is the capacity beyond which a buffer is left to the garbage collector, so that one large message does
// not stay in memory for good.
const maxPooled = 64 << 10

// Buffer is pooled memory. It has one owner at a time; after Free nobody may use a span of B.
type Buffer struct {
	B []byte
}

var buffers = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 1024)} }}

// GetBuffer returns a buffer whose B has length 0.
func GetBuffer() *Buffer {
	return buffers.Get().(*Buffer)
}

// Free returns the buffer to the pool. A buffer whose capacity is over 64 KiB is dropped instead. Free on nil does
// nothing; calling it twice is a bug.
func (b *Buffer) Free() {
	if b == nil || cap(b.B) > maxPooled {
		return
	}
	b.B = b.B[:0]
	buffers.Put(b)
}
