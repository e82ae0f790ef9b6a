package relay

import "bytes"

// Upload is the body of a request whose letters come one after the other.
type Upload struct {
	size int
	body []byte
}

// NewUpload begins with the first letter.
func NewUpload(b *Begin) *Upload { return &Upload{b.Size, bytes.Clone(b.Data)} }

// AddPart adds a letter. It reports false if that is not the next one.
func (u *Upload) AddPart(p *Part) bool {
	if p.Offset != len(u.body) || len(p.Data) > u.size-len(u.body) {
		return false
	}
	u.body = append(u.body, p.Data...)
	return true
}

// Body returns the body, and false as long as letters are missing.
func (u *Upload) Body() ([]byte, bool) { return u.body, len(u.body) == u.size }
