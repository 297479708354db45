// A strict reader of the form of a page.

#ifndef PARPLAN_TESTS_CLIENTS_REPORT_PAGE_FORM_H_
#define PARPLAN_TESTS_CLIENTS_REPORT_PAGE_FORM_H_

#include <string>

namespace parplan {

// The first fault in the form of `page`, with what stands there; empty when there
// is none. A page is UTF-8 without control characters other than line feeds;
// every element is closed in order, or closes itself; every attribute is quoted
// and occurs once; `<` and `&` stand only where markup begins; the only
// references are those to `& < > " '`.
std::string FaultOfForm(const std::string& page);

// The page with all markup taken out and references resolved: what is read.
std::string VisibleText(const std::string& page);

// How often `part` occurs in `text`.
int CountOf(const std::string& text, const std::string& part);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_REPORT_PAGE_FORM_H_
