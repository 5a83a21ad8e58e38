// The client of Go's standard library, as its users write it: calls CLIENT URL...
//
// Calls each URL once with GET and prints a line for each: the URL, and the status or what went wrong.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	client := http.DefaultClient
	if os.Args[1] == "own" {
		client = &http.Client{Transport: &http.Transport{}}
	}
	for _, url := range os.Args[2:] {
		response, err := client.Get(url)
		if err != nil {
			fmt.Println(url, err)
			continue
		}
		response.Body.Close()
		fmt.Println(url, response.StatusCode)
	}
}
